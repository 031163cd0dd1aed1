#include "data/text/utf8.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::data {
namespace {

constexpr char32_t last_code_point = 0x10FFFF;

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// By the first byte: how many bytes, the bits of it that count, and the least value of that many bytes.
struct Form {
  std::size_t length;
  unsigned bits;
  char32_t least;
};

Form form_of(unsigned char first) {
  if (first < 0x80) return {1, 0x7F, 0};
  if (first >= 0xC2 && first < 0xE0) return {2, 0x1F, 0x80};
  if (first >= 0xE0 && first < 0xF0) return {3, 0x0F, 0x800};
  if (first >= 0xF0 && first < 0xF5) return {4, 0x07, 0x10000};
  return {0, 0, 0};
}

}  // namespace

CodePoint first_code_point(std::string_view text) {
  if (text.empty()) return {};
  const auto first = static_cast<unsigned char>(text.front());
  const Form form = form_of(first);
  if (form.length == 0 || form.length > text.size()) return {};
  char32_t value = first & form.bits;
  for (std::size_t i = 1; i < form.length; ++i) {
    if (!is_continuation(text[i])) return {};
    value = value << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  const bool is_surrogate = value >= 0xD800 && value < 0xE000;
  if (value < form.least || value > last_code_point || is_surrogate) return {};
  return {value, form.length};
}

void append_utf8(std::string& text, char32_t character) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (character < 0x80) return put(character);
  if (character < 0x800) {
    put(0xC0 | character >> 6);
  } else if (character < 0x10000) {
    put(0xE0 | character >> 12);
    put(0x80 | (character >> 6 & 0x3F));
  } else {
    put(0xF0 | character >> 18);
    put(0x80 | (character >> 12 & 0x3F));
    put(0x80 | (character >> 6 & 0x3F));
  }
  put(0x80 | (character & 0x3F));
}

std::size_t valid_utf8_length(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const CodePoint next = first_code_point(text.substr(at));
    if (next.length == 0) break;
    at += next.length;
  }
  return at;
}

std::string_view checked_utf8(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::size_t valid = valid_utf8_length(text);
  if (valid == text.size()) return text;
  throw DataError(fmt::format("{}: offset {}: byte 0x{:02x} is no UTF-8; convert the file to UTF-8",
                              path.string(), valid, static_cast<unsigned char>(text[valid])));
}

std::size_t utf8_prefix(std::string_view text, std::int64_t count) {
  std::size_t at = 0;
  while (at < text.size() && (count > 0 || is_continuation(text[at]))) {
    if (!is_continuation(text[at])) --count;
    ++at;
  }
  return at;
}

std::int64_t count_characters(std::string_view valid_utf8) {
  return std::ranges::count_if(valid_utf8, [](char byte) { return !is_continuation(byte); });
}

}  // namespace lockstep::data
