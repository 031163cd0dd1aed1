#include "tests/structure/check.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>

#include "tests/structure/rules.h"

namespace lockstep::structure {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), {}};
}

/// Whether `path` is `name` or lies below it.
bool belongs_to(std::string_view path, std::string_view name) {
  return path.substr(0, name.size()) == name && (path.size() == name.size() || path[name.size()] == '/');
}

bool belongs_to_any(std::string_view path, std::string_view names) {
  const auto list = words(names);
  return std::any_of(list.begin(), list.end(), [&](const auto& name) { return belongs_to(path, name); });
}

const Part* part_of(std::string_view path) {
  const Part* best = nullptr;
  for (const Part& part : parts) {
    if (belongs_to(path, part.name) && (!best || part.name.size() > best->name.size())) best = &part;
  }
  return best;
}

bool has_extension(const std::string& path, const std::set<std::string>& extensions) {
  return extensions.count(fs::path(path).extension().string()) > 0;
}

bool is_header(const std::string& path) {
  return has_extension(path, {".h", ".cuh"});
}
bool is_cpp(const std::string& path) {
  return is_header(path) || has_extension(path, {".cpp", ".cu"});
}

bool is_ours(const fs::path& path) {
  static const std::set<std::string> scripts{".sh", ".py", ".cmake", ".in"};
  return is_cpp(path.string()) || has_extension(path.string(), scripts) || path.extension().empty() ||
         path.filename() == "CMakeLists.txt";
}

std::string read(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::optional<std::string> quoted_include_fault(const std::string& from, const std::string& included) {
  const Part* target = part_of(included);
  if (!target) return "\"" + included + "\" is not written from the repository root";
  if (belongs_to_any(included, op_lists) && !belongs_to_any(from, op_list_readers)) {
    return "\"" + included + "\" lists every op: it is only for " + std::string(op_list_readers);
  }
  const Part* own = part_of(from);
  if (belongs_to(target->name, own->name) || belongs_to_any(target->name, own->may_include))
    return std::nullopt;
  return std::string(own->name) + " may not include " + std::string(target->name) + " (\"" + included + "\")";
}

std::optional<std::string> system_include_fault(const std::string& from, const std::string& included) {
  if (part_of(included)) return "<" + included + "> is ours: include it with quotes";
  for (const Vendor& vendor : vendors) {
    const bool is_vendor = included.compare(0, vendor.header.size(), vendor.header) == 0;
    if (is_vendor && !belongs_to_any(from, vendor.folders)) {
      return "<" + included + "> is only for " + std::string(vendor.folders);
    }
  }
  return std::nullopt;
}

/// A line of the preprocessor: `name` and what follows it, without the spaces around.
struct Directive {
  std::string name;
  std::string argument;
};

std::optional<Directive> directive_of(const std::string& line) {
  std::istringstream stream(line);
  char hash = 0;
  Directive directive;
  if (!(stream >> hash) || hash != '#') return std::nullopt;
  stream >> std::ws;
  while (std::isalpha(stream.peek())) directive.name += static_cast<char>(stream.get());
  std::getline(stream >> std::ws, directive.argument);
  return directive;
}

std::optional<std::string> include_fault(const std::string& path, const std::string& argument) {
  const auto end = argument.find_first_of("\">", 1);
  if (end == std::string::npos) return "#include that names no file";
  const std::string included = argument.substr(1, end - 1);
  return argument.front() == '"' ? quoted_include_fault(path, included)
                                 : system_include_fault(path, included);
}

std::optional<std::string> line_fault(const std::string& path, const std::string& line) {
  static const std::set<std::string> conditionals{"if", "ifdef", "ifndef", "elif"};
  const auto directive = directive_of(line);
  if (!directive) return std::nullopt;
  if (directive->name == "include") return include_fault(path, directive->argument);
  if (conditionals.count(directive->name) > 0 && !belongs_to_any(path, conditional_folders)) {
    return "#if outside the folders that may differ between machines (" + std::string(conditional_folders) +
           ")";
  }
  return std::nullopt;
}

std::optional<std::string> retired_name_in(const std::string& line) {
  static const auto list = words(retired_names);
  static const std::set<std::string> names(list.begin(), list.end());
  const auto in_word = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (auto at = line.begin(); at != line.end();) {
    const auto begin = std::find_if(at, line.end(), in_word);
    at = std::find_if_not(begin, line.end(), in_word);
    if (std::string word(begin, at); names.count(word) > 0) return word;
  }
  return std::nullopt;
}

}  // namespace

std::vector<SourceFile> read_sources(const fs::path& root) {
  std::vector<SourceFile> files;
  for (const auto& folder : words(top_folders)) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || !is_ours(entry.path())) continue;
      files.push_back({fs::relative(entry.path(), root).generic_string(), read(entry.path())});
    }
  }
  return files;
}

std::vector<std::string> violations(const SourceFile& file) {
  std::vector<std::string> found;
  std::istringstream stream(file.text);
  std::string line;
  int number = 0;
  while (std::getline(stream, line)) {
    ++number;
    if (!is_cpp(file.path)) continue;
    if (const auto name = retired_name_in(line); name && !belongs_to(file.path, "tests/structure")) {
      found.push_back(file.path + ":" + std::to_string(number) + ": '" + *name + "' is a retired name");
    }
    if (const auto fault = line_fault(file.path, line)) {
      found.push_back(file.path + ":" + std::to_string(number) + ": " + *fault);
    }
  }
  if (number > most_lines) {
    found.push_back(file.path + ": " + std::to_string(number) + " lines, at most " +
                    std::to_string(most_lines));
  }
  if (is_header(file.path) && file.text.find("#pragma once\n") == std::string::npos) {
    found.push_back(file.path + ": no #pragma once");
  }
  return found;
}

std::vector<std::string> folders_without_readme(const fs::path& root) {
  auto folders = words(top_folders);
  folders.erase(std::remove_if(folders.begin(), folders.end(),
                               [&](const auto& folder) { return fs::exists(root / folder / "README.md"); }),
                folders.end());
  return folders;
}

}  // namespace lockstep::structure
