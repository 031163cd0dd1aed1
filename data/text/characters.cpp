#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "data/text/tokenizer.h"
#include "data/text/utf8.h"
#include "kernels/base/activity.h"
#include "kernels/base/error.h"

namespace lockstep::data {
namespace {

constexpr std::size_t code_points = 0x110000;
constexpr std::size_t page_size = 256;
constexpr std::uint32_t no_id = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t characters_between_advances = 1 << 16;

/// Ids by code point, in pages of 256, of which most texts use a few.
class CharacterTokenizer final : public Tokenizer {
 public:
  CharacterTokenizer(std::span<const std::string> names, std::string advice)
      : names_(names.begin(), names.end()), advice_(std::move(advice)) {
    pages_.emplace_back().fill(no_id);
    page_of_.fill(0);
    for (std::size_t id = 0; id < names_.size(); ++id) {
      const CodePoint point = first_code_point(names_[id]);
      if (point.length == 0 || point.length != names_[id].size())
        throw UsageError(fmt::format("'{}' of a vocabulary of characters is no character", names_[id]));
      std::uint16_t& page = page_of_[point.value / page_size];
      if (page == 0) {
        page = static_cast<std::uint16_t>(pages_.size());
        pages_.emplace_back().fill(no_id);
      }
      pages_[page][point.value % page_size] = static_cast<std::uint32_t>(id);
    }
  }

  std::int64_t size() const override { return std::ssize(names_); }

  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::uint32_t>& ids, Activity* activity) const override {
    for (std::size_t at = 0; at < text.size();) {
      if (activity != nullptr && ids.size() % characters_between_advances == 0) activity->advance();
      const CodePoint point = first_code_point(text.substr(at));
      if (point.length == 0)
        throw UnknownCharacter(
            at, fmt::format("byte 0x{:02x} is no UTF-8", static_cast<unsigned char>(text[at])));
      const std::uint32_t id = pages_[page_of_[point.value / page_size]][point.value % page_size];
      if (id == no_id) {
        throw UnknownCharacter(at,
                               fmt::format("U+{:04X} is no character of the {} that the vocabulary has{}",
                                           static_cast<std::uint32_t>(point.value), names_.size(), advice_));
      }
      ids.push_back(id);
      at += point.length;
    }
  }

  std::string_view bytes_of(std::int64_t id) const override {
    return id >= 0 && id < size() ? std::string_view(names_[static_cast<std::size_t>(id)])
                                  : std::string_view();
  }

 private:
  std::vector<std::string> names_;
  std::string advice_;
  std::array<std::uint16_t, code_points / page_size> page_of_;
  std::vector<std::array<std::uint32_t, page_size>> pages_;
};

}  // namespace

TokenizerPtr make_character_tokenizer(std::span<const std::string> names, const std::string& advice) {
  return std::make_shared<CharacterTokenizer>(names, advice);
}

CharacterSet::CharacterSet() : seen_(code_points) {}

void CharacterSet::add(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = first_code_point(text.substr(at));
    seen_[point.value] = true;
    at += std::max<std::size_t>(point.length, 1);
  }
}

std::vector<std::string> CharacterSet::names() const {
  std::vector<std::string> names;
  for (std::size_t value = 0; value < seen_.size(); ++value) {
    if (seen_[value]) append_utf8(names.emplace_back(), static_cast<char32_t>(value));
  }
  return names;
}

}  // namespace lockstep::data
