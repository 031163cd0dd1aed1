#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "data/files/fail.h"
#include "data/text/byte_pairs.h"
#include "data/text/utf8.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/file_status.h"
#include "kernels/base/hash.h"
#include "kernels/base/json.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_ids = std::int64_t{1} << 24;
constexpr const char* end_of_text_token = "<|endoftext|>";

std::string contents(const fs::path& path) {
  const MappedFile file(path);
  return std::string(checked_utf8(path, file.bytes()));
}

Json json_of(const fs::path& path) {
  try {
    return Json::parse(contents(path));
  } catch (const JsonError& error) {
    fail(path,
         fmt::format("{}{}", error.byte() ? fmt::format("offset {}: ", *error.byte()) : "", error.what()));
  }
}

/// GPT-2's characters for bytes (bytes_to_unicode of its encoder.py): printable ones are themselves, the
/// others follow from U+0100 on.
class ByteCharacters {
 public:
  ByteCharacters() {
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool is_printable =
          (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      bytes_[is_printable ? byte : next++] = static_cast<char>(byte);
    }
  }

  /// None where a character stands for no byte.
  std::optional<std::string> bytes_of(std::string_view characters) const {
    std::string bytes;
    while (!characters.empty()) {
      const CodePoint point = first_code_point(characters);
      const auto found = bytes_.find(point.value);
      if (found == bytes_.end()) return std::nullopt;
      bytes.push_back(found->second);
      characters.remove_prefix(point.length);
    }
    return bytes;
  }

 private:
  std::unordered_map<char32_t, char> bytes_;
};

/// A vocabulary and its merges on the way from their files.
class Reader {
 public:
  explicit Reader(const fs::path& path) : path_(path) {}

  void go_on_with(const fs::path& path) { path_ = path; }

  void add_token(std::string_view characters, std::int64_t id) {
    ids_.emplace(characters, put(id, characters_.bytes_of(characters).value_or(std::string(characters))));
  }
  /// Nothing for an empty one, as Hugging Face's add_tokens does. One of the vocabulary stays what pairs may
  /// make. Of one number here and another in the vocabulary `tokenizers` takes the latter, with a warning.
  void add_special(const std::string& content, std::int64_t id) {
    if (content.empty()) return;
    if (const auto found = ids_.find(content);
        found != ids_.end() && static_cast<std::int64_t>(found->second) != id) {
      fail(path_,
           fmt::format("added token '{}' has id {}, but {} in the vocabulary; give it one of these in both",
                       content, id, found->second));
    }
    const auto at = static_cast<std::size_t>(id);
    const bool is_known = id >= 0 && at < pairs_.tokens.size() && pairs_.tokens[at] == content;
    const std::uint32_t special = put(id, content);
    if (std::ranges::find(pairs_.specials, special) != pairs_.specials.end()) return;
    pairs_.specials.push_back(special);
    if (!is_known) pairs_.added.push_back(special);
  }
  void add_merge(std::string_view left, std::string_view right) {
    const auto first = ids_.find(std::string(left)), second = ids_.find(std::string(right));
    if (first == ids_.end() || second == ids_.end())
      fail(path_, fmt::format("merge {}: '{} {}' are no two tokens", pairs_.merges.size(), left, right));
    pairs_.merges.emplace_back(first->second, second->second);
  }
  /// "left right"
  void add_merge(std::string_view line) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos)
      fail(path_, fmt::format("merge {}: '{}' are no two tokens", pairs_.merges.size(), line));
    add_merge(line.substr(0, blank), line.substr(blank + 1));
  }
  bool has(const std::string& token) const { return ids_.contains(token); }
  std::int64_t id_of(const std::string& token) const { return ids_.at(token); }
  BytePairs& pairs() { return pairs_; }

  TokenizerPtr finish() {
    try {
      return make_byte_pair_tokenizer(std::move(pairs_));
    } catch (const UsageError& error) {
      fail(path_, error.what());
    }
  }

 private:
  std::uint32_t put(std::int64_t id, std::string bytes) {
    if (id < 0 || id >= most_ids) fail(path_, fmt::format("token id {} is not below {}", id, most_ids));
    const auto at = static_cast<std::size_t>(id);
    if (at >= pairs_.tokens.size()) pairs_.tokens.resize(at + 1);
    pairs_.tokens[at] = std::move(bytes);
    return static_cast<std::uint32_t>(at);
  }

  fs::path path_;
  ByteCharacters characters_;
  BytePairs pairs_;
  std::unordered_map<std::string, std::uint32_t> ids_;
};

/// Of a part of a tokenizer.json: what it would do if it were not refused.
void require_absent(const fs::path& path, const Json& part, std::string_view where,
                    std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const Json& value = part[name];
    const bool is_off =
        value.is_null() || value == Json(false) || value == Json("") || value.get_or(1.0) == 0;
    if (!is_off) fail(path, fmt::format("{}.{} is {}, which is not supported", where, name, value.dump()));
  }
}

std::string type_of(const Json& part) {
  return part["type"].get_or(std::string("of no type"));
}

/// Of pre_tokenizer: ByteLevel alone cuts by GPT-2's expression; behind a Split it only maps bytes.
WordPattern pattern_of(const fs::path& path, const Json& part) {
  const auto refuse = [&](const std::string& what) {
    fail(path, fmt::format("pre_tokenizer {} is not supported; ByteLevel is, alone or behind a Split by the "
                           "expression of GPT-2 or of cl100k and Llama 3",
                           what));
  };
  if (type_of(part) == "ByteLevel") {
    require_absent(path, part, "pre_tokenizer", {"add_prefix_space"});
    if (!part["use_regex"].get_or(true)) refuse("ByteLevel without use_regex");
    return WordPattern::gpt2;
  }
  if (type_of(part) != "Sequence") refuse(type_of(part));
  const Json::Array& steps = part.at("pretokenizers").elements();
  if (steps.size() != 2 || type_of(steps[0]) != "Split" || type_of(steps[1]) != "ByteLevel") {
    std::string types;
    for (const Json& step : steps) types += (types.empty() ? "" : ", ") + type_of(step);
    refuse("Sequence of " + types);
  }
  require_absent(path, steps[1], "pre_tokenizer", {"add_prefix_space", "use_regex"});
  require_absent(path, steps[0], "pre_tokenizer", {"invert"});
  const std::string expression = steps[0]["pattern"]["Regex"].get_or(std::string());
  const auto pattern = known_pattern(expression);
  if (!pattern || steps[0]["behavior"].get_or(std::string()) != "Isolated")
    refuse(fmt::format("Split {} by {}", steps[0]["behavior"].dump(), steps[0]["pattern"].dump()));
  return *pattern;
}

TokenizerPtr read_tokenizer_json(const fs::path& path, const Json& json) {
  if (!json["normalizer"].is_null())
    fail(path, fmt::format("normalizer {} is not supported", type_of(json["normalizer"])));
  const Json& model = json.at("model");
  if (model["type"].get_or(std::string("BPE")) != "BPE")
    fail(path, fmt::format("model {} is not supported; BPE is", type_of(model)));
  require_absent(path, model, "model", {"dropout", "continuing_subword_prefix", "end_of_word_suffix"});
  Reader reader(path);
  reader.pairs().pattern = pattern_of(path, json["pre_tokenizer"]);
  reader.pairs().whole_words = model["ignore_merges"].get_or(false);
  for (const auto& [token, id] : model.at("vocab").members()) reader.add_token(token, id.get<std::int64_t>());
  if (const Json& added = json["added_tokens"]; !added.is_null()) {
    for (const Json& token : added.elements()) {
      require_absent(path, token, "added_tokens", {"single_word", "lstrip", "rstrip"});
      reader.add_special(token.at("content").get<std::string>(), token.at("id").get<std::int64_t>());
    }
  }
  for (const Json& merge : model.at("merges").elements()) {
    if (merge.is_string()) {
      reader.add_merge(merge.get<std::string>());
      continue;
    }
    const auto two = merge.get<std::vector<std::string>>();
    if (two.size() != 2) fail(path, fmt::format("merge {} is no pair", merge.dump()));
    reader.add_merge(two[0], two[1]);
  }
  return reader.finish();
}

TokenizerPtr read_gpt2_files(const fs::path& vocabulary, const fs::path& merges) {
  Reader reader(vocabulary);
  const Json ids = json_of(vocabulary);
  for (const auto& [token, id] : ids.members()) reader.add_token(token, id.get<std::int64_t>());
  if (reader.has(end_of_text_token)) reader.add_special(end_of_text_token, reader.id_of(end_of_text_token));
  reader.go_on_with(merges);
  const std::string text = contents(merges);
  for_each_line(text, [&](std::string_view line, std::size_t) {
    if (!line.empty() && !line.starts_with("#version")) reader.add_merge(line);
  });
  return reader.finish();
}

TokenizerPtr read_folder(const fs::path& folder) {
  const fs::path vocabulary = folder / "vocab.json", merges = folder / "merges.txt";
  if (!fs::exists(status_at(vocabulary)) || !fs::exists(status_at(merges)))
    fail(folder, "neither tokenizer.json nor vocab.json and merges.txt are here");
  try {
    return read_gpt2_files(vocabulary, merges);
  } catch (const JsonError& error) {
    fail(vocabulary, error.what());
  }
}

/// An array of characters, as `write_characters` leaves it, or Hugging Face's object.
TokenizerPtr read_json(const fs::path& path) {
  const Json json = json_of(path);
  try {
    if (json.is_object()) return read_tokenizer_json(path, json);
    return make_character_tokenizer(json.get<std::vector<std::string>>());
  } catch (const JsonError& error) {
    fail(path, error.what());
  } catch (const UsageError& error) {
    fail(path, error.what());
  }
}

}  // namespace

TokenizerPtr open_tokenizer(const fs::path& path) {
  if (!fs::exists(status_at(path))) fail(path, "is no file or folder; say where it lies by --tokenizer PATH");
  if (!fs::is_directory(status_at(path))) return read_json(path);
  const fs::path inside = path / "tokenizer.json";
  return fs::exists(status_at(inside)) ? read_json(inside) : read_folder(path);
}

std::optional<std::int64_t> end_of_text(const Tokenizer& tokenizer) {
  for (std::int64_t id = 0; id < tokenizer.size(); ++id) {
    if (tokenizer.bytes_of(id) == end_of_text_token) return id;
  }
  return std::nullopt;
}

std::string fingerprint_of(const Tokenizer& tokenizer) {
  Sha256 hash;
  for (std::int64_t id = 0; id < tokenizer.size(); ++id) {
    const std::string_view bytes = tokenizer.bytes_of(id);
    hash.update(fmt::format("{} {}", bytes.size(), bytes));
  }
  return hash.hex().substr(0, 16);
}

void write_characters(const fs::path& path, const std::vector<std::string>& names) {
  write_file_atomically(path, Json(names).dump() + "\n");
}

}  // namespace lockstep::data
