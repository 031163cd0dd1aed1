#include "kernels/base/typed_words.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep {
namespace {

constexpr std::size_t most_suggestions = 3;

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
    }
  }
  return row[b.size()];
}

/// Those at the least distance, if that is small for a name so long.
std::vector<std::string> nearest_by_spelling(std::string_view given, std::span<const std::string> names) {
  const std::string wanted = folded(given);
  std::vector<std::string> nearest;
  std::size_t least = std::max<std::size_t>(2, wanted.size() / 3);
  for (const std::string& name : names) {
    const std::size_t distance = edit_distance(wanted, folded(name));
    if (distance > least || distance >= wanted.size()) continue;
    if (distance < least) nearest.clear();
    least = distance;
    nearest.push_back(name);
  }
  return nearest;
}

std::vector<std::string> words_of(std::string name) {
  std::ranges::replace(name, '_', '-');
  std::istringstream stream(name);
  std::vector<std::string> words;
  for (std::string word; std::getline(stream, word, '-');) {
    if (!word.empty()) words.push_back(folded(word));
  }
  return words;
}

/// Those that have all words of `given`: "batch" for "batch-size".
std::vector<std::string> with_the_same_words(std::string_view given, std::span<const std::string> names) {
  const std::vector<std::string> wanted = words_of(std::string(given));
  std::vector<std::string> found;
  for (const std::string& name : names) {
    const std::vector<std::string> words = words_of(name);
    const auto has = [&](const std::string& word) { return std::ranges::count(words, word) > 0; };
    if (!wanted.empty() && std::ranges::all_of(wanted, has)) found.push_back(name);
  }
  return found;
}

/// "'a', 'b' or 'c'".
std::string alternatives(const std::vector<std::string>& names) {
  std::string text = fmt::format("'{}'", names.front());
  for (std::size_t at = 1; at < names.size(); ++at) {
    text += fmt::format("{}'{}'", at + 1 == names.size() ? " or " : ", ", names[at]);
  }
  return text;
}

}  // namespace

std::string did_you_mean(std::string_view given, std::span<const std::string> names) {
  std::vector<std::string> near = nearest_by_spelling(given, names);
  if (near.empty()) near = with_the_same_words(given, names);
  if (near.empty()) return {};
  near.resize(std::min(near.size(), most_suggestions));
  return fmt::format(", did you mean {}?", alternatives(near));
}

std::string folded(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c != '-' && c != '_') text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

std::optional<std::string> same_name(std::string_view given, std::span<const std::string> names) {
  const auto same = std::ranges::find(names, folded(given), folded);
  return same == names.end() ? std::nullopt : std::optional(*same);
}

std::string unknown_name(std::string_view kind, std::string_view given, std::span<const std::string> names) {
  const std::string near = did_you_mean(given, names);
  if (!near.empty()) return fmt::format("unknown {} '{}'{}", kind, given, near);
  return fmt::format("unknown {} '{}'; there are: {}", kind, given, fmt::join(names, ", "));
}

std::string unknown_name(std::string_view kind, std::string_view given, std::span<const std::string> names,
                         std::string_view list) {
  const std::string near = did_you_mean(given, names);
  return fmt::format("unknown {} '{}'{} {}", kind, given, near.empty() ? ";" : near, list);
}

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
