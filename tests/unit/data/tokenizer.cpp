#include "data/text/tokenizer.h"

#include <thread>

#include <fmt/ranges.h>

#include "data/text/split_words.h"
#include "data/text/utf8.h"
#include "kernels/base/activity.h"
#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "tests/parity/formula.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::tests;

namespace {

const std::string llama3_pre_tokenizer =
    R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})";
const std::string gpt2_pre_tokenizer =
    R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TokenizerPtr tokenizer_of(const std::string& json) {
  const TemporaryFolder folder;
  write_file(folder / "tokenizer.json", json);
  return open_tokenizer(folder / "tokenizer.json");
}

/// As `string` of tests/parity/make_tokenizer_goldens.py.
std::string formula_string(const Json& goldens, int number) {
  const std::uint64_t seed = parity::fnv1a(fmt::format("tokenizer/{}", number));
  const auto& pieces = goldens["pieces"].elements();
  const auto& ranges = goldens["ranges"].elements();
  std::string text;
  const std::uint64_t count = (parity::word(seed, 0) >> 33) % 16 + 1;
  for (std::uint64_t piece = 0; piece < count; ++piece) {
    const std::uint64_t kind = (parity::word(seed, 1 + 2 * piece) >> 33) % 4;
    const std::uint64_t word = parity::word(seed, 2 + 2 * piece);
    if (kind < 2) {
      text += pieces[(word >> 33) % pieces.size()].get<std::string>();
    } else if (kind == 2) {
      const auto range = ranges[(word >> 33) % ranges.size()].get<std::vector<std::uint32_t>>();
      append_utf8(text, range[0] + static_cast<char32_t>((word & 0xFFFF) % (range[1] - range[0] + 1)));
    } else {
      text.append(1 + (word & 3), static_cast<char>(0x20 + (word >> 33) % 95));
    }
  }
  return text;
}

std::vector<std::int64_t> wide(const std::vector<std::uint32_t>& ids) {
  return {ids.begin(), ids.end()};
}

std::string block_hash(const Tokenizer& tokenizer, const Json& goldens, int block) {
  std::string all;
  for (int i = 100 * block; i < 100 * block + 100; ++i) {
    const std::string text = formula_string(goldens, i);
    const std::vector<std::uint32_t> ids = tokenizer.encode(text);
    REQUIRE(tokenizer.decode(wide(ids)) == text);
    all += fmt::format("{};", fmt::join(ids, ","));
  }
  return fmt::format("{:016x}", parity::fnv1a(all));
}

std::vector<std::string> words_of(std::string_view text, WordPattern pattern) {
  std::vector<std::string> words;
  while (!text.empty()) {
    words.emplace_back(text.substr(0, first_word(text, pattern)));
    text.remove_prefix(words.back().size());
  }
  return words;
}

/// What is wrong with a tokenizer.json in which `from` is `to`.
std::string refusal(const std::string& from, const std::string& to) {
  const std::string said =
      message_of<DataError>([&] { tokenizer_of(replaced(contents(TOKENIZER), from, to)); });
  const std::size_t at = said.find("tokenizer.json: ");
  return at == std::string::npos ? said : said.substr(at + 16);
}

}  // namespace

TEST_CASE("10,000 strings have the ids that Hugging Face's tokenizers give, by both patterns") {
  const Json goldens = Json::parse(contents(TOKENIZER_GOLDENS));
  const std::string json = contents(TOKENIZER);
  const auto [name, tokenizer] =
      GENERATE_REF(std::pair("llama3", tokenizer_of(json)),
                   std::pair("gpt2", tokenizer_of(replaced(json, llama3_pre_tokenizer, gpt2_pre_tokenizer))));
  CAPTURE(name);
  REQUIRE(tokenizer->size() == 1500);
  const auto hashes = goldens[name].get<std::vector<std::string>>();
  REQUIRE(hashes.size() == 100);
  for (int block = 0; block < 100; ++block) {
    CAPTURE(block);
    CHECK(block_hash(*tokenizer, goldens, block) == hashes[static_cast<std::size_t>(block)]);
  }
}

TEST_CASE("text is cut into words as the two expressions do") {
  using Words = std::vector<std::string>;
  const std::string text = "I'LL  go\n\n now'll 12345!?\r\n \t x";
  CHECK(words_of(text, WordPattern::gpt2) ==
        Words{"I", "'", "LL", " ", " go", "\n\n", " now", "'ll", " 12345", "!?", "\r\n \t", " x"});
  CHECK(words_of(text, WordPattern::llama3) ==
        Words{"I", "'LL", " ", " go", "\n\n", " now", "'ll", " ", "123", "45", "!?\r\n", " \t", " x"});
  CHECK(words_of("a  ", WordPattern::gpt2) == Words{"a", "  "});
}

TEST_CASE("a word of a million bytes is merged in a moment, and from several threads alike") {
  const TokenizerPtr tokenizer = tokenizer_of(contents(TOKENIZER));
  std::string word;
  for (int i = 0; i < 250'000; ++i) word += "thin";
  const auto ids = tokenizer->encode(word);
  CHECK(tokenizer->decode(wide(ids)) == word);
  std::vector<std::vector<std::uint32_t>> seen(3);
  std::vector<std::thread> threads;
  for (auto& one : seen) threads.emplace_back([&] { one = tokenizer->encode(word); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& one : seen) CHECK(one == ids);
}

TEST_CASE("a long text gets on while it is made into tokens") {
  std::string text;
  for (int word = 0; word < 10'000; ++word) text += " thin";
  std::vector<std::uint32_t> ids;
  Activity activity;
  tokenizer_of(contents(TOKENIZER))->encode(text, ids, &activity);
  CHECK(activity.advances() == 3);
}

TEST_CASE("GPT-2's vocab.json and merges.txt are the same tokenizer") {
  const std::string json = replaced(contents(TOKENIZER), llama3_pre_tokenizer, gpt2_pre_tokenizer);
  const TokenizerPtr whole = tokenizer_of(json);
  const Json model = Json::parse(json)["model"];
  const TemporaryFolder folder;
  write_file(folder / "vocab.json", model["vocab"].dump());
  std::string merges = "#version: 0.2\n";
  for (const Json& merge : model["merges"].elements())
    merges += fmt::format("{}\n", fmt::join(merge.get<std::vector<std::string>>(), " "));
  write_file(folder / "merges.txt", merges);
  const TokenizerPtr parts = open_tokenizer(folder.path());
  const std::string text = "First Citizen:\nBefore we proceed<|endoftext|>any further, hear me speak.";
  CHECK(parts->encode(text) == whole->encode(text));
  CHECK(parts->size() == whole->size());
  // The same vocabulary in other files is the same.
  CHECK(fingerprint_of(*parts) == fingerprint_of(*whole));
  CHECK(parts->rules() == whole->rules());
  CHECK(tokenizer_of(contents(TOKENIZER))->rules() != whole->rules());  // of Llama 3's expression
  const std::vector<std::string> letters{"a", "b"}, others{"b", "a"};
  CHECK(fingerprint_of(*make_character_tokenizer(letters)) !=
        fingerprint_of(*make_character_tokenizer(others)));
  CHECK(message_of<DataError>([&] { open_tokenizer(folder / "moved"); }) ==
        (folder / "moved").string() + ": is no file or folder; say where it lies by --tokenizer PATH");
  for (const TokenizerPtr& tokenizer : {whole, parts}) {
    const auto end = end_of_text(*tokenizer);
    REQUIRE(end);
    CHECK(tokenizer->bytes_of(*end) == "<|endoftext|>");
  }
  CHECK_FALSE(end_of_text(*make_character_tokenizer(std::vector<std::string>{"<", "|", ">"})));
  write_file(folder / "vocab.json", "[1]");
  CHECK(message_of<DataError>([&] { open_tokenizer(folder.path()); }) ==
        (folder / "vocab.json").string() + ": [1] is not an object");
  write_file(folder / "vocab.json", model["vocab"].dump());
  write_file(folder / "merges.txt", "th e r\n");
  CHECK(message_of<DataError>([&] { open_tokenizer(folder.path()); }) ==
        (folder / "merges.txt").string() + ": merge 0: 'th e r' are no two tokens");
  std::filesystem::remove(folder / "merges.txt");
  CHECK(message_of<DataError>([&] { open_tokenizer(folder.path()); }) ==
        folder.path().string() + ": neither tokenizer.json nor vocab.json and merges.txt are here");
}

TEST_CASE("an added token may be one of the vocabulary; an empty one is none") {
  const std::string json = contents(TOKENIZER);
  const auto with = [&](const std::string& added) {
    return tokenizer_of(replaced(json, R"("added_tokens":[)", R"("added_tokens":[)" + added));
  };
  const std::string text = "! a < b the";
  const auto plain = tokenizer_of(json)->encode(text);
  CHECK(with(R"({"id":1500,"content":""},)")->encode(text) == plain);
  CHECK(with(R"({"id":1,"content":"!"},)")->encode(text) == plain);
  const auto known = tokenizer_of(json)->encode("the");
  REQUIRE(known.size() == 1);
  const TokenizerPtr merged = with(fmt::format(R"({{"id":{},"content":"the"}},)", known[0]));
  CHECK(merged->encode("the") == known);
  CHECK(merged->encode("other").size() > 1);  // cut before and behind "the"
  const std::string other = R"({"id":1501,"content":"the"},)";
  CHECK(refusal(R"("added_tokens":[)", R"("added_tokens":[)" + other) ==
        fmt::format("added token 'the' has id 1501, but {} in the vocabulary; give it one of these in both",
                    known[0]));
}

TEST_CASE("with ignore_merges a word that is a token is taken whole") {
  const std::string json = contents(TOKENIZER);
  const std::string whole = replaced(json, R"("ignore_merges":false)", R"("ignore_merges":true)");
  const std::string unmerged = replaced(whole, R"("merges":[)", R"("merges":[],"were":[)");
  CHECK(tokenizer_of(unmerged)->encode(" the").size() == 1);
  CHECK(tokenizer_of(unmerged)->encode(" thex").size() == 5);
  CHECK(tokenizer_of(replaced(json, R"("merges":[)", R"("merges":[],"were":[)"))->encode(" the").size() == 4);
}

TEST_CASE("what is not supported of a tokenizer.json is refused by name") {
  CHECK(refusal(R"("normalizer":null)", R"("normalizer":{"type":"NFC"})") ==
        "normalizer NFC is not supported");
  CHECK(refusal(R"("type":"BPE")", R"("type":"WordPiece")") == "model WordPiece is not supported; BPE is");
  CHECK(refusal(R"("dropout":null)", R"("dropout":0.1)") == "model.dropout is 0.1, which is not supported");
  CHECK(refusal(R"("end_of_word_suffix":null)", R"("end_of_word_suffix":"</w>")") ==
        R"(model.end_of_word_suffix is "</w>", which is not supported)");
  CHECK(refusal(R"("lstrip":false)", R"("lstrip":true)") ==
        "added_tokens.lstrip is true, which is not supported");
  const std::string supported =
      " is not supported; ByteLevel is, alone or behind a Split by the expression of GPT-2 or of cl100k and "
      "Llama 3";
  CHECK(refusal(llama3_pre_tokenizer, R"("pre_tokenizer":{"type":"Metaspace"})") ==
        "pre_tokenizer Metaspace" + supported);
  CHECK(refusal(R"(\\p{N}{1,3})", R"(\\p{N})")
            .starts_with(R"(pre_tokenizer Split "Isolated" by {"Regex":"(?i:'s|)"));
  CHECK(refusal(R"("add_prefix_space":false)", R"("add_prefix_space":true)") ==
        "pre_tokenizer.add_prefix_space is true, which is not supported");
  CHECK(refusal(R"("#":3)", R"("#x":3)") == "its vocabulary lacks byte 0x23");
  CHECK(refusal(R"("!":1)", R"("!":-1)") == "token id -1 is not below 16777216");
  CHECK(refusal(R"("merges":[)", R"("merges":[["e","q"],)") == "merge 0 makes 'eq', which is no token");
  CHECK(refusal(R"("merges":[)", R"("merges":["q qq",)") == "merge 0: 'q qq' are no two tokens");
  CHECK(refusal(R"("version")", R"(version)").starts_with("offset 2: no JSON"));
  CHECK(refusal(R"("vocab")", R"("vocabulary")") == "no entry 'vocab'");
}

TEST_CASE("characters are kept as a vocabulary and come back") {
  const TemporaryFolder folder;
  write_characters(folder / "c.json", {"\n", "a", "\xC3\xBC"});
  const TokenizerPtr tokenizer = open_tokenizer(folder / "c.json");
  CHECK(tokenizer->encode("\xC3\xBC\n") == std::vector<std::uint32_t>{2, 0});
  write_file(folder / "c.json", R"(["a", "bc"])");
  CHECK(message_of<DataError>([&] { open_tokenizer(folder / "c.json"); }) ==
        (folder / "c.json").string() + ": 'bc' of a vocabulary of characters is no character");
}
