#include "data/files/tar.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "kernels/base/division.h"
#include "kernels/base/error.h"
#include "kernels/base/number.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t block = 512;
constexpr std::uint64_t most_description = 1 << 20;

/// What headers of their own say of the file that follows them.
struct Override {
  std::optional<std::string> name;
  std::optional<std::uint64_t> size;
};

class Reader {
 public:
  Reader(const std::filesystem::path& path, std::span<const std::byte> bytes)
      : path_(path), bytes_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}

  std::vector<TarMember> read() {
    std::vector<TarMember> members;
    if (bytes_.empty()) fail("an empty file is no tar archive");
    Override next;
    while (at_ < bytes_.size() && !is_end()) {
      if (bytes_.size() - at_ < block) fail("it ends within a header: truncated");
      check_sum();
      const char type = bytes_[at_ + 156];
      const bool describes = type == 'x' || type == 'g' || type == 'L' || type == 'K';
      const std::uint64_t size = !describes && next.size ? *next.size : number(124, 12);
      const std::uint64_t offset = at_ + block;
      if (size > bytes_.size() - offset)
        fail(fmt::format("'{}' has {} bytes, but the archive ends before: truncated", name(), size));
      if (describes) {
        read_description(type, bytes_.substr(offset, size), next);
      } else {
        const bool is_file = type == '0' || type == '\0' || type == '7';
        if (is_file) members.push_back({next.name.value_or(name()), offset, size});
        next = {};
      }
      at_ = std::min<std::uint64_t>(offset + rounded_up(size, block), bytes_.size());
    }
    return members;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw DataError(fmt::format("{}: offset {}: {}", path_.string(), at_, reason));
  }

  std::string_view header() const { return bytes_.substr(at_, block); }

  /// Up to the first zero.
  std::string_view text(std::uint64_t offset, std::uint64_t most) const {
    const std::string_view field = header().substr(offset, most);
    return field.substr(0, field.find('\0'));
  }

  std::string name() const {
    const bool is_ustar = header().substr(257, 6) == std::string_view("ustar\0", 6);
    const std::string_view prefix = is_ustar ? text(345, 155) : std::string_view();
    return prefix.empty() ? std::string(text(0, 100)) : fmt::format("{}/{}", prefix, text(0, 100));
  }

  bool is_end() const {
    return header().find_first_not_of('\0') == std::string_view::npos && bytes_.size() - at_ >= block;
  }

  /// Octal digits, or, marked by the first bit, a big-endian number.
  std::uint64_t number(std::uint64_t offset, std::uint64_t length) const {
    const std::string_view field = header().substr(offset, length);
    std::uint64_t value = 0;
    if ((field[0] & 0x80) != 0) {
      for (const char byte : field.substr(4)) value = value << 8 | static_cast<unsigned char>(byte);
      if (field.substr(1, 3) != std::string_view("\0\0\0", 3) || value >> 62 != 0)
        fail("a number is too large");
      return value;
    }
    for (const char digit : field.substr(std::min(field.find_first_not_of(' '), field.size()))) {
      if (digit == ' ' || digit == '\0') break;
      if (digit < '0' || digit > '7') fail("a number is not octal: no tar header");
      value = value << 3 | static_cast<std::uint64_t>(digit - '0');
    }
    return value;
  }

  /// Of the header's bytes, with blanks in the place of the sum itself.
  void check_sum() const {
    constexpr std::uint64_t first = 148;
    constexpr std::uint64_t length = 8;
    std::uint64_t sum = length * ' ';
    for (std::uint64_t i = 0; i < block; ++i) {
      if (i < first || i >= first + length) sum += static_cast<unsigned char>(bytes_[at_ + i]);
    }
    if (sum != number(first, length)) fail("the checksum of a header is wrong: damaged, or no tar archive");
  }

  void read_description(char type, std::string_view contents, Override& next) const {
    if (contents.size() > most_description) fail("a header of more than a MiB");
    if (type == 'L') next.name = std::string(contents.substr(0, contents.find('\0')));
    if (type == 'x') read_pax(contents, next);
  }

  /// Lines "<length of the line> <key>=<value>\n".
  void read_pax(std::string_view lines, Override& next) const {
    while (!lines.empty() && lines[0] != '\0') {
      const auto length = leading_number<std::size_t>(lines);
      if (length < 5 || length > lines.size()) fail("a pax header with a wrong length");
      const std::string_view line = lines.substr(0, length - 1);
      lines.remove_prefix(length);
      const std::size_t key = line.find(' ') + 1;
      const std::size_t equals = line.find('=');
      if (key == 0 || equals == std::string_view::npos || equals < key) fail("a pax header without a key");
      const std::string_view value = line.substr(equals + 1);
      if (line.substr(key, equals - key) == "path") next.name = std::string(value);
      if (line.substr(key, equals - key) == "size") {
        next.size = parse_number<std::uint64_t>(value);
        if (!next.size) fail("a pax header whose size is no number");
      }
    }
  }

  const std::filesystem::path& path_;
  std::string_view bytes_;
  std::uint64_t at_ = 0;
};

}  // namespace

std::vector<TarMember> read_tar(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  return Reader(path, bytes).read();
}

}  // namespace lockstep::data
