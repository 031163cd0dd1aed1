#include <algorithm>
#include <cstring>
#include <limits>

#include "data/text/windows.h"
#include "kernels/token_windows.h"

namespace lockstep::data {
namespace {

template <class Word>
Word word_at(const std::byte* bytes, std::int64_t index) {
  Word word;
  std::memcpy(&word, bytes + static_cast<std::size_t>(index) * sizeof word, sizeof word);
  return word;
}

/// As a token: what 63 bits do not hold is the greatest there is.
template <class Word>
std::int64_t to_token(Word word) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  if constexpr (sizeof(Word) == 8) return static_cast<std::int64_t>(std::min(word, static_cast<Word>(most)));
  return static_cast<std::int64_t>(word);
}

}  // namespace

TokenSpan TokenSpan::part(std::int64_t begin, std::int64_t end) const {
  return {bytes_.subspan(static_cast<std::size_t>(begin) * width_,
                         static_cast<std::size_t>(end - begin) * width_),
          width_};
}

void TokenSpan::copy_to(std::span<std::int64_t> out) const {
  kernels::with_token_word(width_, [&]<class Word>(Word) {
    for (std::int64_t i = 0; i < std::ssize(out); ++i)
      out[static_cast<std::size_t>(i)] = to_token(word_at<Word>(bytes_.data(), i));
  });
}

std::int64_t TokenSpan::largest() const {
  if (size() == 0) return -1;
  return kernels::with_token_word(width_, [&]<class Word>(Word largest) {
    for (std::int64_t i = 0; i < size(); ++i) largest = std::max(largest, word_at<Word>(bytes_.data(), i));
    return to_token(largest);
  });
}

std::int64_t TokenSpan::find_at_least(std::int64_t least) const {
  return kernels::with_token_word(width_, [&]<class Word>(Word) {
    std::int64_t at = 0;
    while (at < size() && to_token(word_at<Word>(bytes_.data(), at)) < least) ++at;
    return at;
  });
}

std::vector<std::int64_t> TokenSpan::positions_of(std::int64_t token) const {
  std::vector<std::int64_t> positions;
  kernels::with_token_word(width_, [&]<class Word>(Word) {
    for (std::int64_t i = 0; i < size(); ++i) {
      if (to_token(word_at<Word>(bytes_.data(), i)) == token) positions.push_back(i);
    }
  });
  return positions;
}

}  // namespace lockstep::data
