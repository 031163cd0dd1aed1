#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/datasets.h"
#include "data/text/tokenizer.h"
#include "data/text/windows.h"

namespace lockstep::data {

/// What texts were opened last: training set, test set and names of classes come from one reading; of files
/// of tokens the number of those that their tokenizer knows. Used by one thread at a time.
class OpenedTexts {
 public:
  /// What `read` gives for these options, or gave when it was last asked for the same. `Corpus` is always the
  /// same for a data set of one name.
  template <class Corpus, class Read>
  static std::shared_ptr<const Corpus> of(const DatasetOptions& options, Read&& read) {
    if (options.texts == nullptr) return std::make_shared<const Corpus>(read(options));
    OpenedTexts& opened = *options.texts;
    Key key{options.name,    options.data_dir,    options.target_file, options.tokenizer,
            options.windows, options.class_names, options.token_names};
    if (opened.corpus_ == nullptr || opened.key_ != key) {
      opened.corpus_ = std::make_shared<const Corpus>(read(options));
      opened.key_ = std::move(key);
    }
    return std::static_pointer_cast<const Corpus>(opened.corpus_);
  }

 private:
  struct Key {
    std::string name;
    std::filesystem::path place;
    std::filesystem::path target_file;
    std::filesystem::path tokenizer;
    std::string windows;
    std::vector<std::string> class_names;
    std::vector<std::string> token_names;

    bool operator==(const Key&) const = default;
  };
  Key key_{};
  std::shared_ptr<const void> corpus_{};
};

struct Vocabulary {
  TokenizerPtr tokenizer;
  std::vector<std::string> names{};  ///< of its tokens, where they are characters of the data
};

/// Whether the tokens of text are those of a tokenizer's file, not characters.
bool has_tokenizer(const DatasetOptions& options);

/// That of --tokenizer PATH, else ("characters") the characters that weights know, if the options tell them,
/// else those of `texts`.
Vocabulary vocabulary_of(const DatasetOptions& options, std::span<const std::string_view> texts);

/// What to do about data with more tokens than weights know.
inline constexpr const char* more_tokens_than_weights =
    "weights cannot be given more: give the tokenizer of their training by --tokenizer PATH, or train "
    "without "
    "--init-from";

/// The size of the vocabulary that a model gets for data with one of `own` tokens: what was typed, if any.
/// UsageError when that is smaller; and when the model takes no sequences.
std::int64_t settled_vocab_size(const DatasetOptions& options, std::int64_t own);

/// Text of a file, from this byte of it on.
struct FilePart {
  const std::filesystem::path& path;
  std::size_t offset;
  std::string_view text;
};

/// The text of a whole file, without a byte order mark. DataError names what is no UTF-8.
FilePart file_text(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// Appends the ids of the text. DataError with the place in its file for what the vocabulary has not.
/// `activity`, which may be null, advances meanwhile.
void encode_from(const FilePart& part, const Tokenizer& tokenizer, std::vector<std::uint32_t>& ids,
                 Activity* activity);

/// Ids in the narrowest words that hold every one below `vocab_size`.
TokenPiece piece_of(const std::vector<std::uint32_t>& ids, std::int64_t vocab_size);

/// Sequences of tokens, each of its own length.
class TokenSequences {
 public:
  void add(const FilePart& part, const Tokenizer& tokenizer);
  void finish(std::int64_t vocab_size);  ///< after the last `add`, before the first look

  std::int64_t size() const { return std::ssize(begins_) - 1; }
  std::int64_t length(std::int64_t index) const;
  /// Its first tokens, as many as fit, and padding behind them.
  void copy(std::int64_t index, std::span<std::int64_t> out) const;
  void each_content(const Dataset::TakeBytes& take) const;

 private:
  std::vector<std::uint32_t> ids_;
  TokenPiece piece_;
  std::vector<std::int64_t> begins_{0};  ///< and the end of the last
};

/// A line on samples that take more than `seq_len` tokens, which is all that is read of each: how many, and
/// what the longest takes. Empty where there are none.
std::string warning_of_cut(std::int64_t samples, std::int64_t seq_len,
                           const std::function<std::int64_t(std::int64_t index)>& tokens_of);

}  // namespace lockstep::data
