#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

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
