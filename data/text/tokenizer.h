#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/error.h"

namespace lockstep {
class Activity;
}

namespace lockstep::data {

/// A character that a vocabulary does not have.
struct UnknownCharacter : UsageError {
  UnknownCharacter(std::size_t byte, const std::string& what_is_wrong)
      : UsageError("byte " + std::to_string(byte) + ": " + what_is_wrong),
        offset(byte),
        reason(what_is_wrong) {}

  std::size_t offset;  ///< in the text that was encoded
  std::string reason;
};

/// By name what decides, beside the tokens, into which of them a text is cut. Of long lists a hash.
using TokenizerRules = std::map<std::string, std::string>;

/// Text to token ids and back. Used by several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Ids are 0 .. size() - 1.
  virtual std::int64_t size() const = 0;

  /// Appends the ids of `text`, which is valid UTF-8. UnknownCharacter for one that has none. `activity`,
  /// which may be null, advances meanwhile.
  virtual void encode(std::string_view text, std::vector<std::uint32_t>& ids, Activity* activity) const = 0;

  /// The bytes that an id stands for: of one id not always whole characters. Empty for an id that is none.
  virtual std::string_view bytes_of(std::int64_t id) const = 0;

  /// None where the tokens alone decide.
  virtual TokenizerRules rules() const { return {}; }

  std::vector<std::uint32_t> encode(std::string_view text) const {
    std::vector<std::uint32_t> ids;
    encode(text, ids, nullptr);
    return ids;
  }
  std::string decode(std::span<const std::int64_t> ids) const {
    std::string text;
    for (const std::int64_t id : ids) text += bytes_of(id);
    return text;
  }
};

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

/// One token for each character, in the order of their code points. `names`: the characters as UTF-8, which
/// is what a run keeps as the names of its classes. UsageError when one is no single character. `advice` ends
/// the reason of UnknownCharacter.
TokenizerPtr make_character_tokenizer(std::span<const std::string> names, const std::string& advice = {});

/// A vocabulary that was made elsewhere:
/// - tokenizer.json of Hugging Face's tokenizers: model BPE over bytes, cut by GPT-2's or Llama 3's
/// expression
///   (split_words.h), without normaliser; added tokens are found in the text, the post-processor adds
///   nothing;
/// - a folder with such a file, or with GPT-2's vocab.json and merges.txt;
/// - a JSON array of characters (`write_characters`).
/// DataError names the file and what of it is not supported.
TokenizerPtr open_tokenizer(const std::filesystem::path& path);

/// The token "<|endoftext|>", which parts documents in GPT-2's vocabulary, if this one has it.
std::optional<std::int64_t> end_of_text(const Tokenizer& tokenizer);

/// The same for vocabularies of the same tokens by the same numbers, whatever files they come from and
/// whatever their rules.
std::string fingerprint_of(const Tokenizer& tokenizer);

void write_characters(const std::filesystem::path& path, const std::vector<std::string>& names);

/// Text files as files of tokens in llm.c's format (`open_token_file`): tokens are uint16 where the
/// vocabulary has at most 65,536, else uint32.
struct TokenizeRequest {
  std::filesystem::path input;   ///< a file, or a folder with files train*.txt, val*.txt and test*.txt
  std::filesystem::path output;  ///< a file, or the folder for train*.bin, val*.bin and test*.bin
  /// Empty: of characters, those of all files, which are kept as `characters.json` in a folder, or beside a
  /// file "a.bin" as "a.characters.json".
  std::filesystem::path tokenizer{};
};

struct TokenizedFile {
  std::filesystem::path path;
  std::int64_t tokens = 0;
  std::int64_t vocab_size = 0;
};

/// DataError for what cannot be read, DeviceError for what cannot be written.
std::vector<TokenizedFile> tokenize_files(const TokenizeRequest& request);

/// The distinct characters of texts in valid UTF-8, by code point.
class CharacterSet {
 public:
  CharacterSet();
  void add(std::string_view text);
  std::vector<std::string> names() const;

 private:
  std::vector<bool> seen_;
};

}  // namespace lockstep::data
