#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// Text to token ids and back. Used by several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Ids are 0 .. size() - 1.
  virtual std::int64_t size() const = 0;

  /// Appends the ids of `text`, which is valid UTF-8. UsageError for a character that has none.
  virtual void encode(std::string_view text, std::vector<std::uint32_t>& ids) const = 0;

  /// The bytes that an id stands for: of one id not always whole characters. Empty for an id that is none.
  virtual std::string_view bytes_of(std::int64_t id) const = 0;

  std::vector<std::uint32_t> encode(std::string_view text) const {
    std::vector<std::uint32_t> ids;
    encode(text, ids);
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
/// is what a run keeps as the names of its classes. UsageError when one is no single character.
TokenizerPtr make_character_tokenizer(std::span<const std::string> names);

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
