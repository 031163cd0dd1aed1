#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// `name` in lower case, without '-' and '_': names that differ only in these are the same.
std::string folded(std::string_view name);

/// The one of `names` that is `given` when folded.
std::optional<std::string> same_name(std::string_view given, std::span<const std::string> names);

/// ", did you mean 'a', 'b' or 'c'?": the nearest names, at most three; empty when none is near.
std::string did_you_mean(std::string_view given, std::span<const std::string> names);

/// "unknown <kind> '<given>', did you mean 'a', 'b' or 'c'?": the nearest names, at most three; when none is
/// near, "unknown <kind> '<given>'; there are: a, b, c".
std::string unknown_name(std::string_view kind, std::string_view given, std::span<const std::string> names);

/// The same for long lists: `list`, such as "`trainer models` lists them", stands for the names.
std::string unknown_name(std::string_view kind, std::string_view given, std::span<const std::string> names,
                         std::string_view list);

/// "--max_steps" is "--max-steps".
std::string with_dashes(std::string name);

/// A word that other programs have for something of ours.
struct FieldWord {
  std::string_view word;  ///< "-b" for an option of one letter, else without dashes
  std::string_view ours;  ///< of the same meaning; empty: `hint` says what to type instead
  std::string_view hint{};
};

/// The row for `typed`, with case, '-' and '_' ignored but in options of one letter ("-b"); null for none.
const FieldWord* find_word(std::span<const FieldWord> words, std::string_view typed);

/// What `typed` is called here: by `words`, or as one of `names` but for case, '-' and '_', else as it is.
/// UsageError with the hint when there is no such thing.
std::string our_name(std::string_view typed, std::span<const FieldWord> words,
                     std::span<const std::string> names);

}  // namespace lockstep
