#include "data/idx.h"

#include <string>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kUnsignedBytes = 0x08;

[[noreturn]] void fail(const fs::path& path, std::uint64_t offset, const std::string& reason) {
  throw DataError(fmt::format("{}: offset {}: {}", path.string(), offset, reason));
}

unsigned byte_at(std::span<const std::byte> bytes, std::size_t offset) {
  return std::to_integer<unsigned>(bytes[offset]);
}

std::uint32_t big_endian_at(std::span<const std::byte> bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | byte_at(bytes, offset + i);
  return value;
}

void check_magic(const fs::path& path, std::span<const std::byte> head, std::size_t rank) {
  if (head.size() < 4) fail(path, head.size(), "it ends within the magic number: truncated");
  if (byte_at(head, 0) != 0 || byte_at(head, 1) != 0) fail(path, 0, "the magic number is not IDX's");
  if (byte_at(head, 2) != kUnsignedBytes) {
    fail(path, 2, fmt::format("elements of type 0x{:02x}, not unsigned bytes (0x08)", byte_at(head, 2)));
  }
  if (byte_at(head, 3) != rank) {
    fail(
        path, 3,
        fmt::format("{} dimensions, but {} belong here: images and labels swapped?", byte_at(head, 3), rank));
  }
}

Shape read_shape(const fs::path& path, std::span<const std::byte> head, std::size_t rank) {
  check_magic(path, head, rank);
  std::vector<std::int64_t> extents;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::size_t offset = 4 + 4 * axis;
    if (head.size() < offset + 4) fail(path, head.size(), "it ends within its dimensions: truncated");
    extents.push_back(big_endian_at(head, offset));
    if (extents.back() == 0) fail(path, offset, "a dimension of 0");
  }
  return Shape(std::move(extents));
}

std::uint64_t size_told_by(const fs::path& path, std::span<const std::byte> head, std::size_t rank) {
  std::uint64_t elements = 1;
  for (const std::int64_t extent : read_shape(path, head, rank)) {
    if (__builtin_mul_overflow(elements, static_cast<std::uint64_t>(extent), &elements) ||
        elements >> 62 != 0) {
      fail(path, 4, "its dimensions are too large");
    }
  }
  return 4 + 4 * rank + elements;
}

void check_size(const fs::path& path, std::span<const std::byte> contents, std::size_t rank) {
  const std::uint64_t told = size_told_by(path, contents, rank);
  if (contents.size() < told) {
    fail(path, contents.size(), fmt::format("it ends here, but its header tells {} bytes: truncated", told));
  }
  if (contents.size() > told)
    fail(path, told, fmt::format("{} bytes behind the end that its header tells", contents.size() - told));
}

fs::path compressed_or_plain(const fs::path& path) {
  return fs::exists(path) ? path : fs::path(path.string() + ".gz");
}

FileBytes read(const fs::path& path, std::size_t rank, const UnpackCache& cache) {
  if (path.extension() != ".gz") return FileBytes(MappedFile(path));
  return cache.open(path, [&](std::span<const std::byte> head) { return size_told_by(path, head, rank); });
}

}  // namespace

IdxFile::IdxFile(const fs::path& path, std::size_t rank, const UnpackCache& cache)
    : path_(compressed_or_plain(path)), contents_(read(path_, rank, cache)) {
  check_size(path_, contents_.bytes(), rank);
  shape_ = read_shape(path_, contents_.bytes(), rank);
}

}  // namespace lockstep::data
