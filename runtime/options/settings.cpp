#include "runtime/options/settings.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/typed_words.h"
#include "runtime/options/table.h"
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

/// Before the text, from editors of another system.
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

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
    line.settings.emplace_back(option.name, value_of(option, std::move(given), rest));
  }
  return line;
}

TypedSettings read_config_file(const std::string& path) {
  namespace po = boost::program_options;
  try {
    const MappedFile mapped(path);
    std::string_view text(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
    if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
    std::istringstream file{std::string(text)};
    TypedSettings settings;
    for (const auto& option : po::parse_config_file(file, po::options_description(), true).options) {
      const Syntax known = resolve("--" + option.string_key);
      if (known.name == "config") throw UsageError("a file names no other: leave config out");
      settings.emplace_back(known.name, option.value.front());
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

}  // namespace lockstep::runtime
