#include "data/text/labelled_files.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "data/files/fail.h"
#include "data/text/utf8.h"
#include "data/text/vocabulary.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/file_status.h"
#include "kernels/base/number.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

/// Of a file.
struct TextLines {
  std::vector<Text> texts;
  std::int64_t lines = 0;  ///< empty ones, too

  /// Where the lines behind the first `texts` texts begin.
  std::int64_t end_of(std::size_t count) const {
    if (count == 0) return 0;
    return count < texts.size() ? texts[count].line : lines;
  }
};

std::vector<std::string> ordered(const std::set<std::string>& labels) {
  std::vector<std::string> names(labels.begin(), labels.end());
  const auto number = [](const std::string& label) { return parse_number<std::int64_t>(label); };
  const bool are_numbers =
      std::ranges::all_of(names, [&](const auto& label) { return number(label).has_value(); });
  if (are_numbers) std::ranges::stable_sort(names, {}, [&](const auto& label) { return *number(label); });
  return names;
}

TextLines lines_of(const fs::path& path) {
  const MappedFile file(path);
  TextLines all;
  for_each_line(checked_utf8(path, file.bytes()), [&](std::string_view line, std::size_t offset) {
    const std::int64_t number = all.lines++;
    if (line.empty()) return;
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos) fail(path, offset, "this line has no tab between label and text");
    if (tab == 0 || tab + 1 == line.size()) fail(path, offset, "this line has no label, or no text");
    const std::size_t begin = tab + 1;
    all.texts.push_back(
        {path, offset + begin, std::string(line.substr(begin)), std::string(line.substr(0, tab)), number});
  });
  if (all.texts.empty()) fail(path, 0, "the file has no lines");
  return all;
}

/// Texts `first` to `end` of `file`, before which files of `before` lines lie.
void add_texts(TextLines& file, std::size_t first, std::size_t end, std::int64_t before, SplitTexts& split) {
  for (std::size_t i = first; i < end; ++i) {
    split.lines.add(before + file.texts[i].line);
    split.texts.push_back(std::move(file.texts[i]));
  }
}

/// The ends of its last lines are no part of a text.
void add_files(const fs::path& folder, const std::string& label, std::vector<Text>& texts) {
  const std::size_t before = texts.size();
  for (const std::string& below : folders_below(folder)) {
    for (const std::string& name : files_in(below)) {
      if (!name.ends_with(".txt")) continue;
      const fs::path path = fs::path(below) / name;
      const MappedFile file(path);
      const FilePart part = file_text(path, file.bytes());
      const std::string_view text = part.text.substr(0, part.text.find_last_not_of("\r\n") + 1);
      if (text.empty()) fail(path, 0, "the file holds no text");
      texts.push_back({path, part.offset, std::string(text), label});
    }
  }
  if (texts.size() == before) fail(folder, "no .txt files for this class");
}

}  // namespace

Texts read_lines(const SplitFiles& files) {
  Texts texts;
  std::set<std::string> labels;
  const auto take = [&](const std::vector<fs::path>& paths, bool tell_labels, double trained_on) {
    std::int64_t before = 0;
    for (const fs::path& path : paths) {
      TextLines file = lines_of(path);
      const std::size_t count = file.texts.size();
      const auto cut = static_cast<std::size_t>(static_cast<double>(count) * trained_on);
      if (tell_labels) {
        for (const Text& text : file.texts) labels.insert(text.label);
      }
      const std::int64_t trained = file.end_of(cut);
      add_texts(file, 0, cut, before, texts.train);
      add_texts(file, cut, count, before, texts.test);
      texts.train.lines.leave_out(trained - static_cast<std::int64_t>(cut));
      texts.test.lines.leave_out(file.lines - trained - static_cast<std::int64_t>(count - cut));
      before += file.lines;
    }
  };
  take(files.train, true, files.test.empty() ? 0.9 : 1.0);
  take(files.test, files.train.empty(), 0.0);
  texts.labels = ordered(labels);
  return texts;
}

Texts read_folders(const fs::path& root) {
  Texts texts;
  const SplitFolders folders = split_folders(root);
  texts.labels = class_folders_in(folders.classes());
  if (texts.labels.empty()) {
    throw DataError(
        fmt::format("{}: neither train*.tsv files nor folders of .txt files for each class are here",
                    folders.classes().string()));
  }
  const auto add = [](const fs::path& folder, SplitTexts& to) {
    if (folder.empty()) return;
    for (const std::string& label : class_folders_in(folder)) add_files(folder / label, label, to.texts);
  };
  add(folders.train, texts.train);
  add(folders.test, texts.test);
  return texts;
}

bool has_lines(const fs::path& place) {
  if (!fs::is_directory(status_at(place))) return true;
  return std::ranges::any_of(files_in(place), [](const std::string& name) { return name.ends_with(".tsv"); });
}

}  // namespace lockstep::data
