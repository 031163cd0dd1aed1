#include "data/text/numpy_tokens.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/number.h"

namespace lockstep::data {
namespace {

constexpr std::string_view magic("\x93NUMPY");
constexpr std::size_t version_at = magic.size();
constexpr std::size_t length_at = version_at + 2;

struct ArrayType {
  std::string_view descr;
  std::size_t width;
};
constexpr std::array array_types{ArrayType{"<u2", 2}, ArrayType{"<u4", 4}, ArrayType{"<i4", 4},
                                 ArrayType{"<i8", 8}, ArrayType{"<u8", 8}};

[[noreturn]] void fail(const TokenFile& file, std::size_t offset, const std::string& reason) {
  throw DataError(fmt::format("{}: offset {}: {}", file.path.string(), offset, reason));
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// What lies between `before` and `behind`; empty for none.
std::string_view between(std::string_view text, std::string_view before, char behind) {
  const std::size_t at = text.find(before);
  if (at == text.npos) return {};
  text.remove_prefix(at + before.size());
  return text.substr(0, std::min(text.find(behind), text.size()));
}

/// Of "(12,)".
std::optional<std::uint64_t> count_of(std::string_view header) {
  std::string_view shape = between(header, "'shape': (", ')');
  if (!shape.ends_with(',')) return std::nullopt;
  shape.remove_suffix(1);
  return parse_number<std::uint64_t>(shape);
}

}  // namespace

bool is_numpy(std::span<const std::byte> bytes) {
  return text_of(bytes).starts_with(magic);
}

void read_numpy(TokenFile& file) {
  const std::span<const std::byte> bytes = file.file->bytes();
  const bool is_long = bytes.size() > version_at && bytes[version_at] != std::byte{1};
  const std::size_t header_at = length_at + (is_long ? sizeof(std::uint32_t) : sizeof(std::uint16_t));
  if (bytes.size() < header_at) fail(file, bytes.size(), "it ends within NumPy's header: truncated");
  std::uint32_t length = 0;  // x86-64 is little-endian, as the format is
  std::memcpy(&length, bytes.data() + length_at, header_at - length_at);
  if (bytes.size() - header_at < length) fail(file, bytes.size(), "it ends within NumPy's header: truncated");
  const std::string_view header = text_of(bytes.subspan(header_at, length));

  const std::string_view descr = between(header, "'descr': '", '\'');
  const auto* const type = std::ranges::find(array_types, descr, &ArrayType::descr);
  if (type == array_types.end()) {
    fail(file, header_at,
         fmt::format("an array of '{}': tokens are uint16, uint32, int32 or int64, little-endian", descr));
  }
  const auto count = count_of(header);
  if (!count) fail(file, header_at, "tokens are an array of one dimension");
  file.offset = header_at + length;
  const std::span<const std::byte> tokens = bytes.subspan(file.offset);
  if (tokens.size() / type->width != *count || tokens.size() % type->width != 0) {
    fail(file, file.offset,
         fmt::format("{} bytes of tokens, but its header tells of {} tokens of {} bytes", tokens.size(),
                     *count, type->width));
  }
  file.tokens = TokenSpan(tokens, type->width);
  file.has_signs = descr.substr(0, 2) == "<i";
}

}  // namespace lockstep::data
