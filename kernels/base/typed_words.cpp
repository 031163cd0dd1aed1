#include "kernels/base/typed_words.h"

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/base/nearest.h"

namespace lockstep {

std::string with_dashes(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

const FieldWord* find_word(std::span<const FieldWord> words, std::string_view typed) {
  const bool one_letter = typed.starts_with('-');
  const std::string wanted = folded(typed);
  const auto found = std::ranges::find_if(words, [&](const FieldWord& row) {
    if (one_letter || row.word.starts_with('-')) return row.word == typed;
    return folded(row.word) == wanted;
  });
  return found == words.end() ? nullptr : &*found;
}

std::string our_name(std::string_view typed, std::span<const FieldWord> words,
                     std::span<const std::string> names) {
  if (const FieldWord* word = find_word(words, typed)) {
    if (word->ours.empty()) throw UsageError(std::string(word->hint));
    return std::string(word->ours);
  }
  return same_name(typed, names).value_or(std::string(typed));
}

}  // namespace lockstep
