#include "kernels/base/safetensors.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/json.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little endian");

constexpr std::size_t prefix_bytes = 8;                   // length of the header, little endian
constexpr std::uint64_t most_header_bytes = 100'000'000;  // as in the reference implementation
constexpr std::size_t alignment = 64;                     // of the first tensor's bytes

/// "f32" to "F32".
std::string file_name_of(DType dtype) {
  std::string name(name_of(dtype));
  for (char& letter : name) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return name;
}

/// A BOOL is a byte, as masks of older GPT-2 files are.
std::optional<DType> dtype_of(std::string_view name) {
  if (name == "BOOL") return DType::u8;
  for (const DType dtype :
       {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8, DType::u16}) {
    if (file_name_of(dtype) == name) return dtype;
  }
  return std::nullopt;
}

/// Checks a file's bytes step by step; every error has the file's name and an offset.
class Parser {
 public:
  Parser(const std::filesystem::path& path, std::span<const std::byte> file) : path_(path), file_(file) {
    read_header();
  }

  std::map<std::string, std::string> metadata() const {
    std::map<std::string, std::string> result;
    if (!header_.contains("__metadata__")) return result;
    const Json& entry = header_["__metadata__"];
    if (!entry.is_object()) fail(prefix_bytes, "__metadata__ is not an object");
    for (const auto& [key, value] : entry.members()) {
      if (!value.is_string()) fail(prefix_bytes, fmt::format("__metadata__ '{}' is not a string", key));
      result[key] = value.get<std::string>();
    }
    return result;
  }

  std::vector<SafetensorsFile::Tensor> tensors() const {
    std::vector<SafetensorsFile::Tensor> result;
    for (const auto& [name, entry] : header_.members()) {
      if (name != "__metadata__") result.push_back(tensor(name, entry));
    }
    // An empty tensor comes before the one that begins at its place, whatever the header's order.
    std::ranges::stable_sort(result, {}, [](const SafetensorsFile::Tensor& tensor) {
      return std::pair(tensor.bytes.data(), tensor.bytes.size());
    });
    require_no_gaps(result);
    return result;
  }

 private:
  [[noreturn]] void fail(std::size_t offset, const std::string& reason) const {
    throw DataError(fmt::format("{}: offset {}: {}", path_.string(), offset, reason));
  }

  void read_header() {
    if (file_.size() < prefix_bytes) {
      fail(0, fmt::format("{} bytes are too few for a safetensors file", file_.size()));
    }
    std::uint64_t length = 0;
    std::memcpy(&length, file_.data(), prefix_bytes);
    if (length > most_header_bytes) fail(0, fmt::format("header of {} bytes: no safetensors file", length));
    if (length > file_.size() - prefix_bytes) {
      fail(0, fmt::format("header of {} bytes, but the file has only {}: truncated", length, file_.size()));
    }
    data_ = file_.subspan(prefix_bytes + length);
    parse_json(
        {reinterpret_cast<const char*>(file_.data()) + prefix_bytes, static_cast<std::size_t>(length)});
  }

  void parse_json(std::string_view text) {
    try {
      header_ = Json::parse(text);
    } catch (const JsonError& error) {
      if (error.byte()) fail(prefix_bytes + *error.byte(), "the header is not valid JSON");
      fail(prefix_bytes, error.what());
    }
    if (!header_.is_object()) fail(prefix_bytes, "the header is not a JSON object");
  }

  SafetensorsFile::Tensor tensor(const std::string& name, const Json& entry) const {
    const auto bad = [&](const std::string& reason) {
      fail(prefix_bytes, fmt::format("tensor '{}': {}", name, reason));
    };
    if (!entry.is_object() || entry.members().size() != 3 || !entry.contains("dtype") ||
        !entry.contains("shape") || !entry.contains("data_offsets")) {
      bad("needs dtype, shape and data_offsets, and nothing else");
    }
    if (!entry["dtype"].is_string()) bad("dtype is not a string");
    const auto dtype = dtype_of(entry["dtype"].get<std::string>());
    if (!dtype) bad(fmt::format("dtype {} is not supported", entry["dtype"].get<std::string>()));
    const std::vector<std::uint64_t> extents = unsigned_list(name, entry["shape"], "shape");
    const std::vector<std::uint64_t> offsets = unsigned_list(name, entry["data_offsets"], "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1]) bad("data_offsets are not [begin, end]");
    if (offsets[1] > data_.size()) {
      fail(file_.size(), fmt::format("tensor '{}' ends at {}, but the file ends here: truncated", name,
                                     offsets[1] + (file_.size() - data_.size())));
    }
    const std::uint64_t bytes = offsets[1] - offsets[0];
    if (byte_size(name, extents, *dtype) != bytes)
      bad(fmt::format("its shape does not fill its {} bytes", bytes));
    return {name, *dtype, Shape(std::vector<std::int64_t>(extents.begin(), extents.end())),
            data_.subspan(offsets[0], bytes)};
  }

  std::vector<std::uint64_t> unsigned_list(const std::string& name, const Json& list,
                                           const char* what) const {
    std::vector<std::uint64_t> numbers;
    try {
      numbers = list.get<std::vector<std::uint64_t>>();
    } catch (const JsonError&) {
      fail(prefix_bytes, fmt::format("tensor '{}': {} is not a list of sizes", name, what));
    }
    const bool valid = std::ranges::all_of(numbers, [](std::uint64_t number) { return number >> 63 == 0; });
    if (!valid) fail(prefix_bytes, fmt::format("tensor '{}': {} is not a list of sizes", name, what));
    return numbers;
  }

  std::uint64_t byte_size(const std::string& name, std::span<const std::uint64_t> extents,
                          DType dtype) const {
    std::uint64_t size = size_of(dtype);
    for (const std::uint64_t extent : extents) {
      if (__builtin_mul_overflow(size, extent, &size)) {
        fail(prefix_bytes, fmt::format("tensor '{}': its shape overflows", name));
      }
    }
    return size;
  }

  void require_no_gaps(std::span<const SafetensorsFile::Tensor> tensors) const {
    std::size_t end = 0;
    const std::size_t base = file_.size() - data_.size();
    for (const auto& tensor : tensors) {
      const auto begin = static_cast<std::size_t>(tensor.bytes.data() - data_.data());
      if (begin != end) {
        fail(base + end, fmt::format("tensor '{}' begins at {}: {}", tensor.name, base + begin,
                                     begin < end ? "it overlaps another" : "bytes of no tensor before it"));
      }
      end += tensor.bytes.size();
    }
    if (end != data_.size())
      fail(base + end, fmt::format("{} bytes behind the last tensor", data_.size() - end));
  }

  const std::filesystem::path& path_;
  std::span<const std::byte> file_;
  std::span<const std::byte> data_;
  Json header_;
};

std::string header_for(std::span<const SafetensorsFile::Tensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t offset = 0;
  for (const auto& tensor : tensors) {
    const std::vector<std::int64_t> shape(tensor.shape.begin(), tensor.shape.end());
    const std::size_t bytes = static_cast<std::size_t>(tensor.shape.elements()) * size_of(tensor.dtype);
    const std::vector<std::size_t> offsets{offset, offset + bytes};
    header[tensor.name] = {
        {"dtype", file_name_of(tensor.dtype)}, {"shape", shape}, {"data_offsets", offsets}};
    offset += bytes;
  }
  std::string text = header.dump();
  const std::size_t end = prefix_bytes + text.size();
  text.append((alignment - end % alignment) % alignment, ' ');
  return text;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(std::make_unique<MappedFile>(path)) {
  const Parser parser(path, file_->bytes());
  metadata_ = parser.metadata();
  tensors_ = parser.tensors();
}

SafetensorsFile::~SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;

const SafetensorsFile::Tensor* SafetensorsFile::find(const std::string& name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&name](const Tensor& tensor) { return tensor.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

void write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsFile::Tensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  stream_safetensors(
      path, tensors, [&](std::size_t i) { return tensors[i].bytes; }, metadata);
}

void stream_safetensors(const std::filesystem::path& path, std::span<const SafetensorsFile::Tensor> tensors,
                        const std::function<std::span<const std::byte>(std::size_t)>& bytes_of,
                        const std::map<std::string, std::string>& metadata) {
  const std::string header = header_for(tensors, metadata);
  const std::uint64_t length = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (std::size_t i = 0; i < tensors.size(); ++i) file.write(bytes_of(i));
  file.commit();
}

}  // namespace lockstep
