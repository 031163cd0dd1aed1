#include "data/files/zip.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>
#include <zlib.h>

#include "kernels/base/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "ZIP files are little endian");

constexpr std::uint32_t local_signature = 0x04034b50;
constexpr std::uint32_t entry_signature = 0x02014b50;
constexpr std::uint32_t end_signature = 0x06054b50;
constexpr std::uint32_t end64_signature = 0x06064b50;
constexpr std::uint32_t locator_signature = 0x07064b50;
constexpr std::size_t local_bytes = 30;
constexpr std::size_t entry_bytes = 46;
constexpr std::size_t end_bytes = 22;
constexpr std::size_t end64_bytes = 56;
constexpr std::size_t locator_bytes = 20;
constexpr std::size_t longest_comment = 0xFFFF;
constexpr std::uint32_t in_zip64 = 0xFFFFFFFF;

/// The bytes of a file; what would be read behind its end is an error.
class Reader {
 public:
  Reader(const fs::path& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  std::uint64_t size() const { return bytes_.size(); }

  [[noreturn]] void fail(std::uint64_t offset, const std::string& reason) const {
    throw DataError(fmt::format("{}: offset {}: {}", path_.string(), offset, reason));
  }

  std::span<const std::byte> range(std::uint64_t offset, std::uint64_t count) const {
    if (offset > size() || count > size() - offset) {
      fail(offset, fmt::format("{} bytes belong here, behind the end: truncated", count));
    }
    return bytes_.subspan(offset, count);
  }

  template <class Number>
  Number number(std::uint64_t offset) const {
    Number value{};
    std::memcpy(&value, range(offset, sizeof value).data(), sizeof value);
    return value;
  }

  void require_signature(std::uint64_t offset, std::uint32_t signature, std::string_view what) const {
    if (number<std::uint32_t>(offset) != signature) fail(offset, fmt::format("no {} is here", what));
  }

 private:
  const fs::path& path_;
  std::span<const std::byte> bytes_;
};

/// The last record, behind which is only a comment.
std::uint64_t find_end(const Reader& file) {
  if (file.size() < end_bytes) file.fail(0, fmt::format("{} bytes are too few for a ZIP file", file.size()));
  const std::uint64_t last = file.size() - end_bytes;
  const std::uint64_t first = last > longest_comment ? last - longest_comment : 0;
  for (std::uint64_t at = last + 1; at-- > first;) {
    if (file.number<std::uint32_t>(at) == end_signature) return at;
  }
  file.fail(last, "no end of a ZIP file: truncated, or of another format");
}

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t entries = 0;
};

Directory find_directory(const Reader& file) {
  const std::uint64_t end = find_end(file);
  const Directory small{.offset = file.number<std::uint32_t>(end + 16),
                        .entries = file.number<std::uint16_t>(end + 10)};
  const bool is_large =
      end >= locator_bytes && file.number<std::uint32_t>(end - locator_bytes) == locator_signature;
  if (!is_large) return small;
  const auto end64 = file.number<std::uint64_t>(end - locator_bytes + 8);
  file.range(end64, end64_bytes);
  file.require_signature(end64, end64_signature, "end of a ZIP64 file");
  return {.offset = file.number<std::uint64_t>(end64 + 48),
          .entries = file.number<std::uint64_t>(end64 + 32)};
}

/// The 64-bit numbers of an entry's extra field, in the order in which they are missing in the entry.
class Extra64 {
 public:
  Extra64(const Reader& file, std::uint64_t begin, std::uint64_t end) : file_(file), end_(end) {
    for (std::uint64_t at = begin; at + 4 <= end; at += 4 + file.number<std::uint16_t>(at + 2)) {
      if (file.number<std::uint16_t>(at) != 1) continue;
      next_ = at + 4;
      end_ = std::min<std::uint64_t>(end, next_ + file.number<std::uint16_t>(at + 2));
      return;
    }
    next_ = end;
  }

  std::uint64_t or_next(std::uint32_t small) {
    if (small != in_zip64) return small;
    if (next_ + sizeof(std::uint64_t) > end_) file_.fail(next_, "a size of 64 bits is missing");
    next_ += sizeof(std::uint64_t);
    return file_.number<std::uint64_t>(next_ - sizeof(std::uint64_t));
  }

 private:
  const Reader& file_;
  std::uint64_t next_ = 0;
  std::uint64_t end_;
};

std::vector<ZipFile::Entry> read_entries(const Reader& file) {
  const Directory directory = find_directory(file);
  std::vector<ZipFile::Entry> entries;
  std::uint64_t at = directory.offset;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    file.range(at, entry_bytes);
    file.require_signature(at, entry_signature, "entry of a ZIP file's directory");
    const std::uint64_t name = at + entry_bytes;
    const std::uint64_t extra = name + file.number<std::uint16_t>(at + 28);
    const std::uint64_t comment = extra + file.number<std::uint16_t>(at + 30);
    const auto text = file.range(name, extra - name);
    ZipFile::Entry entry{.name = std::string(reinterpret_cast<const char*>(text.data()), text.size()),
                         .crc = file.number<std::uint32_t>(at + 16)};
    if ((file.number<std::uint16_t>(at + 8) & 1U) != 0) file.fail(at, entry.name + " is encrypted");
    if (file.number<std::uint16_t>(at + 10) != 0) {
      file.fail(at, entry.name + " is compressed, which PyTorch never does: save it again by torch.save");
    }
    Extra64 large(file, extra, comment);
    entry.size = large.or_next(file.number<std::uint32_t>(at + 24));
    if (large.or_next(file.number<std::uint32_t>(at + 20)) != entry.size) {
      file.fail(at, entry.name + " has two sizes");
    }
    entry.header = large.or_next(file.number<std::uint32_t>(at + 42));
    entries.push_back(std::move(entry));
    at = comment + file.number<std::uint16_t>(at + 32);
  }
  return entries;
}

}  // namespace

ZipFile::ZipFile(const fs::path& path)
    : path_(path), file_(path), entries_(read_entries(Reader(path_, file_.bytes()))) {}

const ZipFile::Entry* ZipFile::find(const std::string& name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  return found == entries_.end() ? nullptr : &*found;
}

std::uint64_t ZipFile::offset_of(const Entry& entry) const {
  const Reader file(path_, file_.bytes());
  file.range(entry.header, local_bytes);
  file.require_signature(entry.header, local_signature, "header of " + entry.name);
  return entry.header + local_bytes + file.number<std::uint16_t>(entry.header + 26) +
         file.number<std::uint16_t>(entry.header + 28);
}

std::span<const std::byte> ZipFile::contents(const Entry& entry) const {
  const std::uint64_t offset = offset_of(entry);
  const auto bytes = Reader(path_, file_.bytes()).range(offset, entry.size);
  const auto crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (crc == entry.crc) return bytes;
  throw DataError(fmt::format("{}: offset {}: {} is damaged: its checksum is {:08x}, not {:08x}",
                              path_.string(), offset, entry.name, crc, entry.crc));
}

}  // namespace lockstep::data
