// Files of tokens, indexes of Megatron-LM, tokenizers, text: the first byte of an input says which it is.
#include <cstdlib>

#include "data/text/split_words.h"
#include "data/text/token_file.h"
#include "data/text/tokenizer.h"
#include "data/text/utf8.h"
#include "kernels/base/error.h"
#include "tests/fuzz/input_file.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::tests;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void read_tokens(const TokenFile& file) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(file.tokens.size()));
  file.tokens.copy_to(ids);
  for (const std::int64_t id : ids) require(id >= 0 && id <= file.tokens.largest());
  if (!file.documents) return;
  for (const std::int64_t begin : *file.documents) require(begin >= 0 && begin <= file.tokens.size());
}

/// What was encoded comes back.
void use(const Tokenizer& tokenizer) {
  const std::string text = "It's 12345 o'CLOCK\n\n  now<|endoftext|>\xC3\xBC";
  const std::vector<std::uint32_t> ids = tokenizer.encode(text);
  require(tokenizer.decode(std::vector<std::int64_t>(ids.begin(), ids.end())) == text);
}

void cut(std::string_view text) {
  if (valid_utf8_length(text) != text.size()) return;
  for (const WordPattern pattern : {WordPattern::gpt2, WordPattern::llama3}) {
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t length = first_word(rest, pattern);
      require(length > 0 && length <= rest.size());
      require(valid_utf8_length(rest.substr(0, length)) == length);
      rest.remove_prefix(length);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes = text_of(data + 1, size - 1);
  try {
    switch (data[0]) {
      case 't':
        read_tokens(open_token_file(input_file("t.bin", bytes), ""));
        break;
      case 'm':
        input_file("m.bin", std::string(24, '\1'));
        read_tokens(open_token_file(input_file("m.idx", bytes), ""));
        break;
      case 'j':
        use(*open_tokenizer(input_file("tokenizer.json", bytes)));
        break;
      default:
        cut(bytes);
    }
  } catch (const DataError&) {
  } catch (const UsageError&) {
  }
  return 0;
}
