#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/files/unpack_cache.h"
#include "data/text/windows.h"
#include "kernels/base/activity.h"
#include "kernels/base/file.h"

namespace lockstep::data {

/// "<|endoftext|>", the last token of GPT-2's vocabulary.
inline constexpr std::int64_t gpt2_end_of_text = 50256;

/// A file of token ids, mapped.
struct TokenFile {
  std::filesystem::path path;
  std::size_t offset = 0;  ///< of the first token
  TokenSpan tokens{};
  bool has_signs = false;  ///< its numbers may be negative, which no token is
  std::shared_ptr<const MappedFile> file{};
  /// Where documents begin, and the end of the last: only where the format tells (Megatron's index).
  std::optional<std::vector<std::int64_t>> documents{};
  /// Tokens that part documents in most files of this format: the first of them that is in the file.
  std::vector<std::int64_t> usual_boundaries{};
};

/// Any of these formats, found by what the file and its neighbours are:
/// - Megatron-LM: FILE.bin with FILE.idx ("MMIDIDX", version 1) beside it; either may be named;
/// - llm.c: 256 int32 of header: magic number 20240520, version 1 and the number of tokens, which are uint16,
///   or 20240801, version 7 and uint32;
/// - NumPy: an array that np.save wrote, as build-nanogpt's files are;
/// - nanoGPT: nothing but tokens, uint16 or as `dtype` says ("uint16", "uint32").
/// DataError names the file, the offset and what is wrong there. UsageError for another `dtype`.
TokenFile open_token_file(const std::filesystem::path& path, const std::string& dtype);

/// The largest token; -1 for none. It is kept in `cache_folder`, if that is not empty, by the file's path,
/// size and time of change, so a file is read through once per machine.
std::int64_t largest_token(const TokenFile& file, const std::filesystem::path& cache_folder,
                           Activity* activity);

/// Its header counts in 32 bits.
inline constexpr std::int64_t most_llm_c_tokens = 0xFFFFFFFF;

/// The header that llm.c writes for `count` tokens of 2 or 4 bytes.
std::vector<std::byte> llm_c_header(std::int64_t count, std::size_t width);

}  // namespace lockstep::data
