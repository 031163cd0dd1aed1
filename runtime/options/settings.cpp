#include "runtime/options/settings.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "data/text/utf8.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/typed_words.h"
#include "runtime/options/table.h"
#include "runtime/options/values.h"
#include "runtime/options/words.h"

namespace lockstep::runtime {
namespace {

using Words = std::vector<std::string>;

/// How an option takes its words.
struct Syntax {
  std::string name;
  std::string value_name;            ///< empty: not told
  std::optional<std::string> alone;  ///< its value when none is typed
  bool is_switch = false;            ///< takes a value by '=' only
  bool is_pair = false;              ///< "0.9 0.999" is "0.9,0.999"
};

std::optional<Syntax> find_syntax(const std::string& name) {
  if (name == "config") return Syntax{.name = name, .value_name = "FILE", .alone = {}};
  if (const OptionEntry* entry = find_entry(name)) {
    return Syntax{.name = name,
                  .value_name = entry->value_name,
                  .alone = entry->is_switch() ? "true" : entry->alone,
                  .is_switch = entry->is_switch(),
                  .is_pair = entry->is_pair};
  }
  if (const FutureOption* future = find_future(name)) {
    const auto alone = future->is_switch ? std::optional<std::string>("true") : std::nullopt;
    return Syntax{
        .name = name, .value_name = future->neutral, .alone = alone, .is_switch = future->is_switch};
  }
  return std::nullopt;
}

[[noreturn]] void throw_unknown(const std::string& typed) {
  Words names{"--config", "--help", "--version"};
  for (const OptionEntry& entry : option_table()) names.push_back("--" + entry.name);
  throw UsageError(unknown_name("option", typed, names, "`trainer --help` lists them"));
}

/// `typed` is "--name" or "-n".
Syntax resolve(const std::string& typed) {
  const std::string name = with_dashes(typed.starts_with("--") ? typed.substr(2) : typed);
  if (auto syntax = find_syntax(name)) return *syntax;
  const FieldWord* word = find_word(option_words(), name);
  if (word == nullptr) throw_unknown(typed);
  if (word->ours.empty()) throw UsageError(fmt::format("{}: {}", typed, word->hint));
  return *find_syntax(std::string(word->ours));
}

/// The words behind an option, from which it takes its value.
class Rest {
 public:
  explicit Rest(const Words& words) : next_(words.begin()), end_(words.end()) {}

  bool done() const { return next_ == end_; }
  std::string take() { return *next_++; }
  bool has_value() const { return !done() && !next_->starts_with("--"); }
  /// A negative number counts as one.
  bool has_plain_value() const { return !done() && !next_->starts_with('-'); }

 private:
  Words::const_iterator next_;
  Words::const_iterator end_;
};

std::string value_of(const Syntax& option, std::optional<std::string> given, Rest& rest) {
  const bool takes_next = option.alone ? !option.is_switch && rest.has_plain_value() : rest.has_value();
  if (!given && takes_next) given = rest.take();
  if (!given && option.alone) return *option.alone;
  if (!given) {
    throw UsageError(fmt::format("--{} needs a value{}{}", option.name, option.value_name.empty() ? "" : ": ",
                                 option.value_name));
  }
  if (option.is_pair && given->find(',') == std::string::npos && rest.has_plain_value()) {
    *given += "," + rest.take();
  }
  return *given;
}

/// In the place of a '#' that begins no comment: Boost takes each for one.
constexpr char kept_hash = '\x01';

/// A comment begins a line or stands behind a blank; "\#" is always a '#'.
std::string with_kept_hashes(std::string_view text) {
  std::string kept;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_escaped = text.substr(i).starts_with("\\#");
    if (is_escaped) ++i;
    const bool begins_comment =
        !is_escaped && (i == 0 || std::isspace(static_cast<unsigned char>(text[i - 1])) != 0);
    kept += text[i] == '#' && !begins_comment ? kept_hash : text[i];
  }
  return kept;
}

std::string with_hashes(std::string kept) {
  std::ranges::replace(kept, kept_hash, '#');
  return kept;
}

/// UsageError for a line that is no setting, comment or title, with what to write.
void require_values(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string setting = trimmed(std::string_view(line).substr(0, line.find('#')));
    if (setting.empty() || setting.starts_with('[') || setting.find('=') != setting.npos) continue;
    const std::string name = setting.substr(0, setting.find_first_of(" \t"));
    const auto syntax = find_syntax(with_dashes(name));
    const std::string otherwise = syntax && syntax->alone ? *syntax->alone : "VALUE";
    const std::string value = trimmed(std::string_view(setting).substr(name.size()));
    throw UsageError(with_hashes(fmt::format("line {}: '{}' has no '=': write {} = {}", number, setting, name,
                                             value.empty() ? otherwise : value)));
  }
}

/// A user's own file may have titles, too, but not most of them.
bool is_written_by_a_run(std::string_view text) {
  std::set<std::string> titles;
  for (const OptionEntry& entry : option_table()) titles.insert(group_title(entry.group));
  const auto found = std::ranges::count_if(
      titles, [text](const std::string& title) { return text.find(title) != text.npos; });
  return 2 * found > std::ssize(titles);
}

/// The one that counts; null for none.
const TypedSetting* find_last(const TypedSettings& settings, std::string_view name) {
  const auto found = std::find_if(settings.rbegin(), settings.rend(),
                                  [&](const TypedSetting& setting) { return setting.name == name; });
  return found == settings.rend() ? nullptr : &*found;
}

/// Than the one that files name.
bool names_another_dataset(const TypedSettings& of_files, const TypedSettings& typed) {
  const TypedSetting* const dataset = find_last(typed, "dataset");
  const TypedSetting* const of_file = find_last(of_files, "dataset");
  return dataset != nullptr && of_file != nullptr && folded(dataset->text) != folded(of_file->text);
}

/// What is typed wins also over what files say by an option of another name, which it would contradict.
std::vector<std::string_view> names_set_aside(const TypedSettings& of_files, const TypedSettings& typed) {
  std::vector<std::string_view> names;
  if (find_last(typed, "batch-size") != nullptr) names.push_back("global-batch");
  if (find_last(typed, "global-batch") != nullptr) names.push_back("batch-size");
  const TypedSetting* const interval = find_last(typed, "eval-every");
  if (interval != nullptr && interval->text == "0") names.push_back("eval-samples");
  // A place and classes beside a data set's name are of that set; without one they are of any.
  if (names_another_dataset(of_files, typed)) {
    for (const char* name : {"data-dir", "target-file", "num-classes"}) names.emplace_back(name);
  }
  return names;
}

}  // namespace

CommandLine read_command_line(const Words& arguments) {
  CommandLine line;
  for (Rest rest(arguments); !rest.done();) {
    const std::string word = rest.take();
    if (!word.starts_with('-')) {
      line.operands.push_back(word);
      continue;
    }
    const auto equals = word.find('=');
    const Syntax option = resolve(word.substr(0, equals));
    auto given = equals == std::string::npos ? std::nullopt : std::optional(word.substr(equals + 1));
    line.settings.push_back({.name = option.name, .text = value_of(option, std::move(given), rest)});
  }
  return line;
}

TypedSettings read_config_file(const std::string& path) {
  namespace po = boost::program_options;
  try {
    const MappedFile mapped(path);
    std::string_view text(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
    text.remove_prefix(data::byte_order_mark_length(text));
    const Place place = is_written_by_a_run(text) ? Place::file_of_a_run : Place::file;
    const std::string kept = with_kept_hashes(text);
    require_values(kept);
    std::istringstream file(kept);
    TypedSettings settings;
    for (const auto& option : po::parse_config_file(file, po::options_description(), true).options) {
      const Syntax known = resolve("--" + with_hashes(option.string_key));
      if (known.name == "config") throw UsageError("a file names no other: leave config out");
      settings.push_back({known.name, with_hashes(option.value.front()), place});
    }
    return settings;
  } catch (const DataError& error) {
    throw UsageError(fmt::format("--config {}", error.what()));
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", path, error.what()));
  } catch (const po::error& error) {
    throw UsageError(fmt::format("{}: {}", path, error.what()));
  }
}

TypedSettings with_files_read(const TypedSettings& typed) {
  TypedSettings settings;
  TypedSettings others;
  for (const TypedSetting& setting : typed) {
    if (setting.name == "config") {
      std::ranges::copy(read_config_file(setting.text), std::back_inserter(settings));
    } else {
      others.push_back(setting);
    }
  }
  if (names_another_dataset(settings, others)) {
    // Written for the files' data set: nobody has typed these for the other one.
    for (TypedSetting& setting : settings) {
      const OptionEntry* const entry = find_entry(setting.name);
      if (entry != nullptr && entry->group == "data") setting.place = Place::file_of_a_run;
    }
  }
  const std::vector<std::string_view> set_aside = names_set_aside(settings, others);
  std::erase_if(settings, [&](const TypedSetting& setting) {
    return std::ranges::find(set_aside, setting.name) != set_aside.end();
  });
  std::ranges::copy(others, std::back_inserter(settings));
  return settings;
}

std::string config_value(std::string value) {
  for (std::size_t at = value.find('#'); at != value.npos; at = value.find('#', at + 2))
    value.insert(at, 1, '\\');
  return value;
}

bool fits_config_file(const std::string& value) {
  return trimmed(value) == value && value.find('\n') == value.npos && value.find(kept_hash) == value.npos;
}

std::string group_title(const std::string& group) {
  return "# " + group + "\n";
}

}  // namespace lockstep::runtime
