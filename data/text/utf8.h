#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::data {

/// A character at the beginning of a text, and the bytes that it takes.
struct CodePoint {
  char32_t value = 0;
  std::size_t length = 0;  ///< 0: these bytes are no UTF-8
};

/// Of UTF-8 as Unicode 15 has it (table 3-7): no longer forms, no surrogates, nothing above U+10FFFF.
CodePoint first_code_point(std::string_view text);

void append_utf8(std::string& text, char32_t character);

/// Bytes before the first that is no UTF-8; all of them if there is none such.
std::size_t valid_utf8_length(std::string_view text);

/// The bytes of a text file. DataError names `path` and the offset of the first that is no UTF-8.
std::string_view checked_utf8(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// Bytes that the first `count` characters of valid UTF-8 take.
std::size_t utf8_prefix(std::string_view text, std::int64_t count);

std::int64_t count_characters(std::string_view valid_utf8);

/// Of the byte order mark that editors of another system put before a text; 0 where there is none.
inline std::size_t byte_order_mark_length(std::string_view text) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  return text.starts_with(mark) ? mark.size() : 0;
}

/// Calls `take` with each line, without its end ("\n" or "\r\n"), and its offset. A byte order mark is in
/// none.
template <class Take>
void for_each_line(std::string_view text, Take&& take) {
  for (std::size_t at = byte_order_mark_length(text); at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    take(line, at);
    at = end + 1;
  }
}

}  // namespace lockstep::data
