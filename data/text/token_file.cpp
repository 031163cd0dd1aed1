#include "data/text/token_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "data/files/fail.h"
#include "data/text/megatron.h"
#include "data/text/numpy_tokens.h"
#include "kernels/base/error.h"
#include "kernels/base/file_status.h"
#include "kernels/base/log.h"
#include "kernels/base/number.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t header_numbers = 256;
constexpr std::size_t header_bytes = header_numbers * sizeof(std::int32_t);
constexpr std::int64_t llama3_begin_of_text = 128000;

/// Of llm.c (dev/data/data_common.py).
struct LlmCFormat {
  std::int32_t magic;
  std::int32_t version;
  std::size_t width;
  std::int64_t boundary;
};
constexpr std::array llm_c_formats{LlmCFormat{20240520, 1, 2, gpt2_end_of_text},
                                   LlmCFormat{20240801, 7, 4, llama3_begin_of_text}};

std::int32_t header_number(std::span<const std::byte> bytes, std::size_t index) {
  std::int32_t number = 0;
  if (bytes.size() >= (index + 1) * sizeof number)
    std::memcpy(&number, bytes.data() + index * sizeof number, sizeof number);
  return number;
}

const LlmCFormat* llm_c_format(std::span<const std::byte> bytes) {
  for (const LlmCFormat& format : llm_c_formats) {
    if (header_number(bytes, 0) == format.magic) return &format;
  }
  return nullptr;
}

void read_llm_c(TokenFile& file, const LlmCFormat& format) {
  const std::span<const std::byte> bytes = file.file->bytes();
  if (bytes.size() < header_bytes) fail(file.path, bytes.size(), "it ends within llm.c's header: truncated");
  if (const std::int32_t version = header_number(bytes, 1); version != format.version)
    fail(file.path, 4, fmt::format("version {} of llm.c's format, not {}", version, format.version));
  const auto count = static_cast<std::uint32_t>(header_number(bytes, 2));
  const std::size_t held = bytes.size() - header_bytes;
  if (held != count * format.width) {
    fail(file.path, std::min(bytes.size(), header_bytes + count * format.width),
         fmt::format("{} bytes of tokens, but its header tells of {} tokens of {} bytes", held, count,
                     format.width));
  }
  file.offset = header_bytes;
  file.tokens = TokenSpan(bytes.subspan(header_bytes), format.width);
  file.usual_boundaries = {format.boundary};
}

std::size_t width_of(const std::string& dtype) {
  if (dtype.empty() || dtype == "uint16") return 2;
  if (dtype == "uint32") return 4;
  throw UsageError(fmt::format("--token-dtype '{}': uint16 or uint32", dtype));
}

/// What would pass for a bare file, whose every byte is a token's.
void refuse_other_contents(const TokenFile& file) {
  const std::span<const std::byte> bytes = file.file->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (file.path.extension() == ".txt") {
    fail(file.path, 0, "it is text: give --dataset text, or make tokens of it by trainer datasets tokenize");
  }
  if (text.starts_with("PK\3\4"))
    fail(file.path, 0, "it is a zip archive, as torch.save and np.savez write: no tokens");
}

void read_bare(TokenFile& file, std::size_t width) {
  refuse_other_contents(file);
  const std::span<const std::byte> bytes = file.file->bytes();
  if (bytes.size() % width != 0)
    fail(file.path, bytes.size() - bytes.size() % width, fmt::format("a token of {} bytes is cut", width));
  file.tokens = TokenSpan(bytes, width);
}

/// In pieces, so that who watches sees that it gets on.
std::int64_t scan(const TokenFile& file, Activity* activity) {
  Activity::Work scanning(activity, "looking for the largest token of " + file.path.string());
  constexpr std::int64_t piece = 1 << 22;
  const std::int64_t count = file.tokens.size();
  std::int64_t largest = -1;
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    const std::int64_t end = std::min(begin + piece, count);
    largest = std::max(largest, file.tokens.part(begin, end).largest());
    scanning.advance(static_cast<std::uint64_t>(end), static_cast<std::uint64_t>(count));
  }
  return largest;
}

}  // namespace

TokenFile open_token_file(const fs::path& path, const std::string& dtype) {
  const std::size_t bare_width = width_of(dtype);
  fs::path bin = path, idx = path;
  bin.replace_extension(".bin");
  idx.replace_extension(".idx");
  if (path.extension() == ".idx") return open_megatron(bin, path);
  if (path.extension() == ".bin" && fs::exists(status_at(idx))) return open_megatron(path, idx);
  TokenFile file{.path = path, .file = std::make_shared<const MappedFile>(path)};
  const LlmCFormat* format = llm_c_format(file.file->bytes());
  if (format != nullptr) {
    read_llm_c(file, *format);
  } else if (is_numpy(file.file->bytes())) {
    read_numpy(file);
  } else {
    read_bare(file, bare_width);
  }
  if (format == nullptr) {
    file.usual_boundaries = {gpt2_end_of_text};
    // Wide tokens may still be GPT-2's: np.save makes i64 of a list of numbers.
    if (file.tokens.width() > 2) file.usual_boundaries = {llama3_begin_of_text, gpt2_end_of_text};
  }
  if (file.tokens.size() == 0) fail(path, file.offset, "it holds no tokens");
  return file;
}

std::int64_t largest_token(const TokenFile& file, const fs::path& cache_folder, Activity* activity) {
  if (cache_folder.empty()) return scan(file, activity);
  const fs::path kept = kept_path(cache_folder, file.path, ".largest-token");
  const std::string name = fmt::format("{} of {} bytes: ", file.tokens.size(), file.tokens.width());
  if (const std::string text = read_text(kept); text.starts_with(name)) {
    if (const auto largest = parse_number<std::int64_t>(std::string_view(text).substr(name.size())))
      return *largest;
  }
  const std::int64_t largest = scan(file, activity);
  try {
    make_folders(cache_folder);
    write_file_atomically(kept, name + std::to_string(largest));
  } catch (const DeviceError& error) {
    log::warn("cannot keep the largest token of a file, which is looked for at every start: {}",
              error.what());
  }
  return largest;
}

std::vector<std::byte> llm_c_header(std::int64_t count, std::size_t width) {
  std::vector<std::int32_t> numbers(header_numbers);
  const LlmCFormat& format = llm_c_formats[width == 2 ? 0 : 1];
  numbers[0] = format.magic;
  numbers[1] = format.version;
  numbers[2] = static_cast<std::int32_t>(static_cast<std::uint32_t>(count));
  std::vector<std::byte> bytes(header_bytes);
  std::memcpy(bytes.data(), numbers.data(), header_bytes);
  return bytes;
}

}  // namespace lockstep::data
