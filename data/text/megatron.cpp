#include "data/text/megatron.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view magic("MMIDIDX\0\0", 9);

struct TokenType {
  const char* name;
  std::size_t width;  ///< 0: no type for tokens
};

/// By its code in the index, from 1.
constexpr std::array token_types{TokenType{"uint8", 1},   TokenType{"int8", 0},  TokenType{"int16", 0},
                                 TokenType{"int32", 4},   TokenType{"int64", 8}, TokenType{"float64", 0},
                                 TokenType{"float32", 0}, TokenType{"uint16", 2}};

/// The numbers of an index, one after the other.
class IndexReader {
 public:
  IndexReader(const fs::path& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  template <class Number>
  Number next(const char* what) {
    const std::size_t at = at_;
    return at_ += sizeof(Number), read<Number>(at, what);
  }

  /// The place of `count` numbers, which are passed over.
  template <class Number>
  std::size_t skip(std::uint64_t count, const char* what) {
    const std::size_t at = at_;
    if (count > (bytes_.size() - at_) / sizeof(Number))
      fail(bytes_.size(), fmt::format("it ends within {} {}: truncated", count, what));
    return at_ += count * sizeof(Number), at;
  }

  template <class Number>
  Number read(std::size_t at, const char* what) const {
    if (bytes_.size() < at + sizeof(Number))
      fail(bytes_.size(), fmt::format("it ends within the {}: truncated", what));
    Number number;
    std::memcpy(&number, bytes_.data() + at, sizeof number);
    return number;
  }

  std::size_t at() const { return at_; }
  std::size_t size() const { return bytes_.size(); }

  [[noreturn]] void fail(std::size_t offset, const std::string& reason) const {
    throw DataError(fmt::format("{}: offset {}: {}", path_.string(), offset, reason));
  }

 private:
  const fs::path& path_;
  std::span<const std::byte> bytes_;
  std::size_t at_ = magic.size();
};

std::size_t read_width(IndexReader& index) {
  if (const auto version = index.next<std::uint64_t>("version"); version != 1)
    index.fail(magic.size(), fmt::format("version {}, not 1", version));
  const std::size_t at = index.at();
  const auto code = index.next<std::uint8_t>("dtype");
  if (code < 1 || code > token_types.size()) index.fail(at, fmt::format("dtype code {} is unknown", code));
  const TokenType& type = token_types[code - 1u];
  if (type.width == 0)
    index.fail(at, fmt::format("tokens of {}; write them as uint8, uint16, int32 or int64", type.name));
  return type.width;
}

}  // namespace

TokenFile open_megatron(const fs::path& bin, const fs::path& idx) {
  const MappedFile index_file(idx);
  IndexReader index(idx, index_file.bytes());
  const std::span head = index_file.bytes().first(std::min(index.size(), magic.size()));
  if (std::string_view(reinterpret_cast<const char*>(head.data()), head.size()) != magic)
    index.fail(0, "the magic number is not MMIDIDX: no index of Megatron-LM");
  const std::size_t width = read_width(index);
  const auto sequences = index.next<std::uint64_t>("number of sequences");
  const auto documents = index.next<std::uint64_t>("number of documents");
  const std::size_t sizes = index.skip<std::int32_t>(sequences, "sizes of sequences");
  const std::size_t pointers = index.skip<std::int64_t>(sequences, "offsets of sequences");
  const std::size_t firsts = index.skip<std::int64_t>(documents, "documents");

  TokenFile file{.path = bin, .file = std::make_shared<const MappedFile>(bin)};
  const std::size_t bytes = file.file->bytes().size();
  std::vector<std::int64_t> begins{0};  // of sequences, in tokens, and the end of the last
  for (std::uint64_t i = 0; i < sequences; ++i) {
    const auto size = index.read<std::int32_t>(sizes + 4 * i, "sizes");
    const auto pointer = index.read<std::int64_t>(pointers + 8 * i, "offsets");
    if (size < 0) index.fail(sizes + 4 * i, fmt::format("sequence {} of {} tokens", i, size));
    if (pointer != begins.back() * static_cast<std::int64_t>(width))
      index.fail(pointers + 8 * i, fmt::format("sequence {} does not begin where the one before it ends", i));
    begins.push_back(begins.back() + size);
  }
  const std::size_t promised = static_cast<std::size_t>(begins.back()) * width;
  if (promised != bytes) {
    throw DataError(fmt::format("{}: offset {}: {} bytes of tokens, but {} tells of {}", bin.string(),
                                std::min(bytes, promised), bytes, idx.string(), promised));
  }
  file.tokens = TokenSpan(file.file->bytes(), width);
  std::vector<std::int64_t> starts;
  for (std::uint64_t i = 0; i < documents; ++i) {
    const auto first = index.read<std::int64_t>(firsts + 8 * i, "documents");
    if (first < 0 || first > static_cast<std::int64_t>(sequences))
      index.fail(firsts + 8 * i,
                 fmt::format("document {} begins with sequence {} of {}", i, first, sequences));
    starts.push_back(begins[static_cast<std::size_t>(first)]);
    if (i > 0 && starts[i] < starts[i - 1])
      index.fail(firsts + 8 * i, fmt::format("document {} begins before the one before it", i));
  }
  file.documents = std::move(starts);
  return file;
}

}  // namespace lockstep::data
