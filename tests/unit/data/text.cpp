#include <numeric>

#include "data/text/text_corpus.h"
#include "data/text/utf8.h"
#include "kernels/base/activity.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/data/text_files.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::data::testing;
using namespace lockstep::tests;

namespace {

DatasetOptions text_options(const std::filesystem::path& place, std::int64_t length,
                            const std::string& windows = "") {
  return {
      .name = "text", .data_dir = place, .seq_len = length, .per_token = true, .seed = 7, .windows = windows};
}

/// 100 characters, of which 90 train: digits of the numbers 0 .. 99, in tens.
std::string digits() {
  std::string text;
  for (int i = 0; i < 100; ++i) text.push_back(static_cast<char>('0' + i / 10));
  return text;
}

}  // namespace

TEST_CASE("UTF-8 is read as Unicode has it, and what is none is named with its offset") {
  for (const char32_t character : {U'\0', U'\x7F', U'\x80', U'\x7FF', U'\x800', U'\xD7FF', U'\xE000',
                                   U'\xFFFF', U'\x10000', U'\x10FFFF'}) {
    std::string text;
    append_utf8(text, character);
    const CodePoint read = first_code_point(text + "x");
    CHECK(read.value == character);
    CHECK(read.length == text.size());
    for (std::size_t cut = 0; cut < text.size(); ++cut)
      CHECK(first_code_point(text.substr(0, cut)).length == 0);
  }
  for (const char* none : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3("}) {
    CHECK(first_code_point(none).length == 0);
  }
  const TemporaryFolder folder;
  write_file(folder / "a.txt", "gr\xC3\xBC\xC3 x");
  CHECK(complaint(text_options(folder / "a.txt", 2), folder / "a.txt") ==
        "offset 4: byte 0xc3 is no UTF-8; convert the file to UTF-8");
  write_file(folder / "a.txt", "");
  CHECK(complaint(text_options(folder / "a.txt", 2), folder / "a.txt") == "offset 0: the file is empty");
  CHECK(complaint(text_options(folder / "none.txt", 2), folder / "none.txt").starts_with("cannot open"));
}

TEST_CASE("characters of the whole text are the vocabulary, by code point") {
  const TemporaryFolder folder;
  write_file(folder / "a.txt",
             "b\xC3\xBC\n\xE2\x82\xAC"
             "a\xF0\x9F\x98\x80"
             "bbbbbbbbbbbbz");
  const DatasetOptions options = text_options(folder / "a.txt", 4, "each");
  const std::vector<std::string> names{"\n", "a", "b", "z", "\xC3\xBC", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
  CHECK(text_class_names(options) == names);
  const DatasetPtr train = open_dataset(options, Split::train);
  CHECK(train->spec().vocab_size == 7);
  CHECK(train->spec().num_classes == 7);
  CHECK(train->spec().input_shape == Shape{4});
  CHECK(train->spec().target_shape == Shape{4});
  CHECK(token_sample(*train, 0) == TokenSample{{2, 4, 0, 5}, {4, 0, 5, 1}});
  const TokenizerPtr characters = make_character_tokenizer(names);
  CHECK(characters->encode("a\xC3\xBC") == std::vector<std::uint32_t>{1, 4});
  Activity activity;
  std::vector<std::uint32_t> ids;
  characters->encode(std::string(200'000, 'a'), ids, &activity);
  CHECK(activity.advances() == 4);
  CHECK(characters->decode(Ids{1, 4, 6, -1, 7}) == "a\xC3\xBC\xF0\x9F\x98\x80");
  CHECK(message_of<UsageError>([&] { characters->encode("aq"); }) ==
        "byte 1: U+0071 is no character of the 7 that the vocabulary has");
  CHECK(message_of<UsageError>([&] { characters->encode("a\xFF"); }) == "byte 1: byte 0xff is no UTF-8");
}

TEST_CASE("a byte order mark is no character of a text, and offsets are those of the file") {
  const TemporaryFolder folder;
  const std::string mark = "\xEF\xBB\xBF";
  write_file(folder / "a.txt", digits());
  write_file(folder / "marked.txt", mark + digits());
  const DatasetOptions plain = text_options(folder / "a.txt", 4, "each");
  DatasetOptions marked = text_options(folder / "marked.txt", 4, "each");
  CHECK(text_class_names(marked) == text_class_names(plain));
  for (const Split split : {Split::train, Split::test})
    CHECK(all_samples(*open_dataset(marked, split)) == all_samples(*open_dataset(plain, split)));
  marked.token_names = {"0"};
  CHECK(complaint(marked, folder / "marked.txt") ==
        "offset 13: U+0031 is no character of the 1 that the vocabulary has");
  write_file(folder / "marked.txt", mark);
  CHECK(complaint(text_options(folder / "marked.txt", 2), folder / "marked.txt") ==
        "offset 0: the file is empty");
}

TEST_CASE("the last tenth of a text is evaluated whole, in windows side by side") {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", digits());
  const DatasetPtr test = open_dataset(text_options(folder / "a.txt", 4, "documents"), Split::test);
  const std::vector<TokenSample> expected{
      {{9, 9, 9, 9}, {9, 9, 9, 9}}, {{9, 9, 9, 9}, {9, 9, 9, 9}}, {{9, -1, -1, -1}, {9, -100, -100, -100}}};
  CHECK(all_samples(*test) == expected);
  DatasetOptions new_to_weights = text_options(folder / "a.txt", 9);
  new_to_weights.data_are_new = true;
  CHECK(token_sample(*open_dataset(new_to_weights, Split::test), 0) ==
        token_sample(*open_dataset(text_options(folder / "a.txt", 9, "each"), Split::train), 0));
  DatasetOptions last = text_options(folder / "a.txt", 6);
  last.per_token = false;
  const DatasetPtr by_sequence = open_dataset(last, Split::test);
  CHECK(by_sequence->spec().target_shape == Shape{});
  CHECK(all_samples(*by_sequence) ==
        std::vector<TokenSample>{{{9, 9, 9, 9, 9, 9}, {9}}, {{9, 9, 9, -1, -1, -1}, {9}}});
}

TEST_CASE("random windows depend on seed, epoch and sample alone, and reach every place") {
  const TemporaryFolder folder;
  std::string text;  // no two places are alike
  for (int i = 0; i < 100; ++i) append_utf8(text, static_cast<char32_t>(0x100 + i));
  write_file(folder / "a.txt", text);
  const DatasetOptions options = text_options(folder / "a.txt", 8);
  const DatasetPtr train = open_dataset(options, Split::train);
  REQUIRE(train->size() == 90 / 8);
  CHECK(all_samples(*train) == all_samples(*open_dataset(options, Split::train)));
  CHECK(all_samples(*train, 0) != all_samples(*train, 1));
  DatasetOptions reseeded = options;
  reseeded.seed = 8;
  CHECK(all_samples(*train) != all_samples(*open_dataset(reseeded, Split::train)));
  std::vector<int> begins(90);
  for (std::int64_t epoch = 0; epoch < 2000; ++epoch) {
    for (const auto& [input, target] : all_samples(*train, epoch)) {
      Ids expected(8);
      std::iota(expected.begin(), expected.end(), input[0]);
      REQUIRE(input == expected);
      std::iota(expected.begin(), expected.end(), input[0] + 1);
      REQUIRE(target == expected);
      ++begins.at(static_cast<std::size_t>(input[0]));
    }
  }
  // 22,000 windows begin at 82 places, 268 each; six standard deviations are 98.
  for (std::size_t place = 0; place < begins.size(); ++place)
    CHECK(std::abs(begins[place] - (place < 82 ? 268 : 0)) <= 98);
  // Places of the first windows of seed 7: the contract of every later version.
  Ids first;
  for (std::int64_t i = 0; i < 6; ++i) first.push_back(token_sample(*train, i).input[0]);
  CHECK(first == Ids{64, 49, 50, 62, 13, 78});
}

TEST_CASE("each window comes once an epoch, and documents part at empty lines and files") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "data");
  write_file(folder / "data/train-1.txt", "aab\n\n\nbb\n");
  write_file(folder / "data/train-2.txt", "ab");
  write_file(folder / "data/val.txt", "ba\n");
  write_file(folder / "data/notes.txt", "\xFF");  // of no split
  const auto samples = [&](const char* windows) {
    return all_samples(*open_dataset(text_options(folder / "data", 4, windows), Split::train));
  };
  CHECK(samples("each") == std::vector<TokenSample>{{{1, 1, 2, 0}, {1, 2, 0, 0}},
                                                    {{0, 0, 2, 2}, {0, 2, 2, 0}},
                                                    {{1, -1, -1, -1}, {2, -100, -100, -100}}});
  CHECK(samples("documents") == std::vector<TokenSample>{{{1, 1, 2, 0}, {1, 2, 0, 0}},
                                                         {{0, -1, -1, -1}, {0, -100, -100, -100}},
                                                         {{2, 2, -1, -1}, {2, 0, -100, -100}},
                                                         {{1, -1, -1, -1}, {2, -100, -100, -100}}});
  CHECK(open_dataset(text_options(folder / "data", 4, "documents"), Split::train)->length(2) == 2);
  CHECK(open_dataset(text_options(folder / "data", 4, "each"), Split::train)->length(2) == 0);
  const DatasetPtr test = open_dataset(text_options(folder / "data", 4, "documents"), Split::test);
  CHECK(all_samples(*test) == std::vector<TokenSample>{{{2, 1, -1, -1}, {1, 0, -100, -100}}});
  std::filesystem::remove(folder / "data/train-1.txt");
  std::filesystem::remove(folder / "data/train-2.txt");
  CHECK(complaint(text_options(folder / "data", 4), folder / "data") ==
        "no .txt file here has 'train' in its name");
}

TEST_CASE("text that does not fit is refused with what to do") {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", digits());
  const auto usage = [&](DatasetOptions options) {
    return message_of<UsageError>([&] { open_dataset(options, Split::train); });
  };
  CHECK(usage({.name = "text"}) == "text: give the file by --data-dir FILE.txt");
  CHECK(usage(text_options(folder / "a.txt", 0)) ==
        "text: the model takes no sequences of tokens; `trainer models` lists those that do");
  CHECK(usage(text_options(folder / "a.txt", 4, "words")) ==
        "'words' is none of random, each, documents, packed, documents=ID and packed=ID, the token that "
        "parts them");
  for (const std::string kind : {"documents", "packed"}) {
    CHECK(usage({.name = "text", .data_dir = folder / "a.txt", .seq_len = 4, .windows = kind + "=9"}) ==
          "--windows " + kind +
              "=9: text is parted at its empty lines, not at a token: leave =9 out, or make tokens of the "
              "text (`trainer datasets tokenize`) and give --dataset tokens");
  }
  CHECK(usage({.name = "text", .data_dir = folder / "a.txt", .seq_len = 4, .windows = "packed"}) ==
        "--windows packed: the model gives one class for a window, which has several documents; take gpt2");
  DatasetOptions options = text_options(folder / "a.txt", 4);
  options.vocab_size_given = true;
  options.vocab_size = 9;
  CHECK(usage(options) == "vocab_size 9: the text data have 10 tokens; leave it out");
  options.vocab_size = 64;
  CHECK(open_dataset(options, Split::train)->spec().vocab_size == 64);
  CHECK(complaint(text_options(folder / "a.txt", 90), folder / "a.txt") ==
        "90 tokens are too few for a window, which takes 91 that follow each other; --seq-len makes it "
        "shorter");
  CHECK(open_dataset(text_options(folder / "a.txt", 89), Split::train)->size() == 1);
}

TEST_CASE("other text has the numbers of the characters that weights know") {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", "cabcabcabc");
  DatasetOptions options = text_options(folder / "a.txt", 2, "each");
  options.token_names = {"\n", "a", "b", "c", "d"};
  CHECK(token_sample(*open_dataset(options, Split::train), 0).input == Ids{3, 1});
  CHECK(open_dataset(options, Split::train)->spec().vocab_size == 5);
  write_file(folder / "a.txt", "caxcabcabc");
  CHECK(complaint(options, folder / "a.txt") ==
        "offset 2: U+0078 is no character of the 5 that the vocabulary has");
  write_file(folder / "a.txt", "cabcabcabx");  // in the part that is evaluated
  CHECK(complaint(options, folder / "a.txt") ==
        "offset 9: U+0078 is no character of the 5 that the vocabulary has");
  options.windows = "documents";
  write_file(folder / "a.txt", "ca\n\nabxcab");
  CHECK(complaint(options, folder / "a.txt") ==
        "offset 6: U+0078 is no character of the 5 that the vocabulary has");
}

TEST_CASE("a text is read once for its splits and its names") {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", digits());
  DatasetOptions options = text_options(folder / "a.txt", 4);
  options.texts = std::make_shared<OpenedTexts>();
  const auto corpus = open_text_corpus(options);
  open_dataset(options, Split::test);
  CHECK(text_class_names(options).size() == 10);
  CHECK(open_text_corpus(options) == corpus);
  options.windows = "documents";
  CHECK(open_text_corpus(options) != corpus);
}
