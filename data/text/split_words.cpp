#include "data/text/split_words.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "data/text/utf8.h"

namespace lockstep::data {
namespace {

constexpr std::string_view gpt2_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view llama3_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr char32_t long_s = 0x17F;  ///< the one other character that is an s but for case

enum class Kind : std::uint8_t { none, letter, number, space, other };

/// Unicode's property White_Space, which \s is.
bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

Kind kind_of(char32_t c) {
  if (is_space(c)) return Kind::space;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return Kind::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return Kind::number;
    default:
      return Kind::other;
  }
}

std::array<Kind, 128> kinds_of_ascii() {
  std::array<Kind, 128> kinds{};
  for (std::size_t c = 0; c < kinds.size(); ++c) kinds[c] = kind_of(static_cast<char32_t>(c));
  return kinds;
}

struct Character {
  char32_t value = 0;
  std::size_t length = 0;
  Kind kind = Kind::none;  ///< behind the end

  bool is_line_end() const { return value == '\r' || value == '\n'; }
};

Character character_at(std::string_view text, std::size_t at) {
  static const std::array<Kind, 128> ascii = kinds_of_ascii();
  if (at >= text.size()) return {};
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 128) return {first, 1, ascii[first]};
  const CodePoint point = first_code_point(text.substr(at));
  return {point.value, std::max<std::size_t>(point.length, 1), kind_of(point.value)};
}

/// Where the run of characters that are `kind`, at most `most` of them, ends.
std::size_t run_end(std::string_view text, std::size_t at, Kind kind,
                    std::size_t most = std::string_view::npos) {
  for (; most > 0; --most) {
    const Character next = character_at(text, at);
    if (next.kind != kind) break;
    at += next.length;
  }
  return at;
}

/// Of an English contraction behind "'"; 0 for none.
std::size_t contraction(std::string_view text, bool any_case) {
  if (text.front() != '\'') return 0;
  const auto lower = [&](std::size_t at) -> char32_t {
    const Character next = character_at(text, at);
    if (!any_case) return next.value;
    if (next.value == long_s) return 's';
    return next.value >= 'A' && next.value <= 'Z' ? next.value + 32 : next.value;
  };
  const char32_t first = lower(1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 1 + character_at(text, 1).length;
  const char32_t second = first < 128 && text.size() > 2 ? lower(2) : 0;
  const bool is_pair =
      (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
  return is_pair ? 3 : 0;
}

/// Of text that begins with white space: all of it up to the end of text; else without the last, which may
/// belong to the word that follows; the one, if there is no other.
std::size_t blank_word(std::string_view text) {
  std::size_t end = 0, last = 0;
  for (Character next = character_at(text, 0); next.kind == Kind::space; next = character_at(text, end)) {
    last = end;
    end += next.length;
  }
  return end == text.size() || last == 0 ? end : last;
}

/// Up to the last end of a line in the white space that the text begins with; 0 without one.
std::size_t lines_end(std::string_view text) {
  std::size_t end = 0, after = 0;
  for (Character next = character_at(text, 0); next.kind == Kind::space; next = character_at(text, end)) {
    end += next.length;
    if (next.is_line_end()) after = end;
  }
  return after;
}

std::size_t first_gpt2_word(std::string_view text) {
  if (const std::size_t length = contraction(text, false)) return length;
  const std::size_t begin = text.front() == ' ' ? 1 : 0;
  const Kind kind = character_at(text, begin).kind;
  if (kind == Kind::none || kind == Kind::space) return blank_word(text);
  return run_end(text, begin, kind);
}

std::size_t first_llama3_word(std::string_view text) {
  if (const std::size_t length = contraction(text, true)) return length;
  const Character first = character_at(text, 0);
  if (first.kind == Kind::letter) return run_end(text, 0, Kind::letter);
  if (first.kind == Kind::number) return run_end(text, 0, Kind::number, 3);
  const bool may_lead = !first.is_line_end();
  if (may_lead && character_at(text, first.length).kind == Kind::letter)
    return run_end(text, first.length, Kind::letter);
  const std::size_t begin = text.front() == ' ' ? 1 : 0;
  if (character_at(text, begin).kind == Kind::other) {
    std::size_t end = run_end(text, begin, Kind::other);
    while (character_at(text, end).is_line_end()) ++end;
    return end;
  }
  if (const std::size_t end = lines_end(text)) return end;
  return blank_word(text);
}

}  // namespace

std::optional<WordPattern> known_pattern(std::string_view expression) {
  if (expression == gpt2_expression) return WordPattern::gpt2;
  if (expression == llama3_expression) return WordPattern::llama3;
  return std::nullopt;
}

std::size_t first_word(std::string_view text, WordPattern pattern) {
  return pattern == WordPattern::gpt2 ? first_gpt2_word(text) : first_llama3_word(text);
}

}  // namespace lockstep::data
