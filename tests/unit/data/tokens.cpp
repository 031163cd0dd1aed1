#include <numeric>

#include <fmt/format.h>

#include "data/loader.h"
#include "data/sampler.h"
#include "data/text/token_file.h"
#include "data/text/vocabulary.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/variable.h"
#include "tests/unit/data/text_files.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::data::testing;
using namespace lockstep::tests;

namespace {

namespace fs = std::filesystem;

/// What is kept of files lies beside them.
struct FolderAndCache : TemporaryFolder {
  const Variable cache{"XDG_CACHE_HOME", (*this / "kept").string()};
};

DatasetOptions token_options(const fs::path& place, std::int64_t length,
                             const std::string& windows = "each") {
  return {.name = "tokens", .data_dir = place, .seq_len = length, .per_token = true, .windows = windows};
}

Ids numbers(std::int64_t first, std::int64_t count) {
  Ids ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

std::string llm_c_file(std::int32_t magic, std::int32_t version, std::int32_t count,
                       const std::string& tokens) {
  Ids header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return words_of<std::int32_t>(header) + tokens;
}

const std::string megatron_magic("MMIDIDX\0\0", 9);

std::string megatron_index(std::uint8_t code, const Ids& sizes, const Ids& pointers, const Ids& documents) {
  return megatron_magic + words_of<std::uint64_t>({1}) + words_of<std::uint8_t>({code}) +
         words_of<std::uint64_t>({std::ssize(sizes), std::ssize(documents)}) + words_of<std::int32_t>(sizes) +
         words_of<std::int64_t>(pointers) + words_of<std::int64_t>(documents);
}

Ids inputs_of(const DatasetOptions& options, Split split = Split::train) {
  Ids all;
  for (const TokenSample& sample : all_samples(*open_dataset(options, split)))
    all.insert(all.end(), sample.input.begin(), sample.input.end());
  return all;
}

}  // namespace

TEST_CASE("files of tokens are read in every format, whole and to the last token") {
  const FolderAndCache folder;
  const fs::path file = folder / "train.bin";
  write_file(folder / "val.bin", words_of<std::uint16_t>(numbers(40, 5)));
  DatasetOptions options = token_options(file, 4);
  std::int64_t scale = 1;
  SECTION("nanoGPT, uint16") {
    scale = 7000;
    write_file(file, words_of<std::uint16_t>({0, 7000, 14000, 21000, 28000, 35000, 42000, 49000, 56000}));
  }
  SECTION("nanoGPT, uint32") {
    scale = 100000;
    options.token_dtype = "uint32";
    write_file(folder / "val.bin", words_of<std::uint32_t>(numbers(40, 5)));
    write_file(file,
               words_of<std::uint32_t>({0, 100000, 200000, 300000, 400000, 500000, 600000, 700000, 800000}));
  }
  SECTION("llm.c, uint16") {
    write_file(file, llm_c_file(20240520, 1, 9, words_of<std::uint16_t>(numbers(0, 9))));
  }
  SECTION("llm.c, uint32") {
    write_file(file, llm_c_file(20240801, 7, 9, words_of<std::uint32_t>(numbers(0, 9))));
  }
  SECTION("Megatron-LM") {
    const std::string tokens =
        GENERATE(words_of<std::uint8_t>(numbers(0, 9)), words_of<std::uint16_t>(numbers(0, 9)),
                 words_of<std::int32_t>(numbers(0, 9)), words_of<std::int64_t>(numbers(0, 9)));
    const std::int64_t width = std::ssize(tokens) / 9;
    write_file(file, tokens);
    write_file(folder / "train.idx", megatron_index(width == 1   ? 1
                                                    : width == 2 ? 8
                                                    : width == 4 ? 4
                                                                 : 5,
                                                    {2, 3, 4}, {0, 2 * width, 5 * width}, {0, 2, 3}));
  }
  Ids expected;
  for (const std::int64_t i : numbers(0, 8)) expected.push_back(i * scale);
  CHECK(inputs_of(options) == expected);
  CHECK(token_sample(*open_dataset(options, Split::train), 1).target[3] == 8 * scale);
  CHECK(inputs_of(options, Split::test) == numbers(40, 4));
  CHECK(open_dataset(options, Split::test)->spec().vocab_size == std::max<std::int64_t>(8 * scale, 44) + 1);
}

TEST_CASE("a folder has training and evaluation by name, a lone file its last tenth") {
  const FolderAndCache folder;
  write_file(folder / "x.bin", words_of<std::uint16_t>(numbers(0, 50)));
  CHECK(inputs_of(token_options(folder / "x.bin", 4)) == numbers(0, 44));
  CHECK(inputs_of(token_options(folder / "x.bin", 4), Split::test) == numbers(45, 4));
  const auto note = find_dataset(datasets(), "tokens").note;
  CHECK(note(token_options(folder / "x.bin", 4)) ==
        "evaluated is the last tenth of " + (folder / "x.bin").string() + ", which is not trained on");
  fs::create_directory(folder / "d");
  write_file(folder / "d/fineweb_train_000002.bin", words_of<std::uint16_t>(numbers(10, 3)));
  write_file(folder / "d/fineweb_train_000001.bin", words_of<std::uint16_t>(numbers(0, 3)));
  write_file(folder / "d/fineweb_val_000000.bin", words_of<std::uint16_t>(numbers(20, 3)));
  CHECK(note(token_options(folder / "d", 2)).empty());
  CHECK(inputs_of(token_options(folder / "d", 2)) == Ids{0, 1, 10, 11});
  CHECK(inputs_of(token_options(folder / "d", 2), Split::test) == Ids{20, 21});
  CHECK(inputs_of(token_options(folder / "d", 2, "random")).size() == 6);  // no window crosses files
}

TEST_CASE("of tokens that are new to weights all are evaluated, whatever the file is called") {
  const FolderAndCache folder;
  write_file(folder / "train.bin", words_of<std::uint16_t>(numbers(0, 50)));
  write_file(folder / "val.bin", words_of<std::uint16_t>(numbers(60, 8)));
  DatasetOptions options = token_options(folder / "train.bin", 7);
  CHECK(inputs_of(options, Split::test) == numbers(60, 7));
  options.data_are_new = true;
  CHECK(inputs_of(options, Split::test) == numbers(0, 49));
  CHECK(find_dataset(datasets(), "tokens").note(options).empty());
}

TEST_CASE("tokens of a tokenizer have its vocabulary, whichever of them the file has") {
  const FolderAndCache folder;
  write_file(folder / "a.bin", words_of<std::uint16_t>(numbers(0, 50)));
  DatasetOptions options = token_options(folder / "a.bin", 7);
  CHECK(open_dataset(options, Split::train)->spec().vocab_size == 50);
  options.tokenizer = TOKENIZER;
  CHECK(open_dataset(options, Split::train)->spec().vocab_size == 1500);
  CHECK(dataset_spec(options).vocab_size == 1500);
  write_file(folder / "a.bin", words_of<std::uint16_t>({1, 1499, 1500, 50256}));
  CHECK(complaint(options, folder / "a.bin") == "offset 4: token 1500, but --tokenizer " TOKENIZER
                                                " knows 1500: give the one that made these tokens");
}

TEST_CASE("a tokenizer is opened once for the splits of files of tokens") {
  const FolderAndCache folder;
  write_file(folder / "a.bin", words_of<std::uint16_t>(numbers(0, 50)));
  DatasetOptions options = token_options(folder / "a.bin", 4);
  options.tokenizer = folder / "tokenizer.json";
  options.texts = std::make_shared<OpenedTexts>();
  fs::copy_file(TOKENIZER, options.tokenizer);
  CHECK(open_dataset(options, Split::train)->spec().vocab_size == 1500);
  fs::remove(options.tokenizer);
  CHECK(open_dataset(options, Split::test)->spec().vocab_size == 1500);
  CHECK(dataset_spec(options).vocab_size == 1500);
}

TEST_CASE("documents of tokens part at their boundary, or as Megatron's index has them") {
  const FolderAndCache folder;
  const fs::path file = folder / "train.bin";
  write_file(folder / "val.bin", words_of<std::uint16_t>({1, 2}));
  const auto documents = [&](const char* windows) {
    return all_samples(*open_dataset(token_options(file, 3, windows), Split::train));
  };
  const std::vector<TokenSample> parted{
      {{9, 1, 2}, {1, 2, 9}}, {{9, 3, -1}, {3, 9, -100}}, {{9, 4, 5}, {4, 5, 6}}, {{6, 7, -1}, {7, 8, -100}}};
  write_file(file, words_of<std::uint16_t>({9, 1, 2, 9, 3, 9, 4, 5, 6, 7, 8}));
  CHECK(documents("documents=9") == parted);
  write_file(file, words_of<std::uint16_t>({50256, 1, 2, 50256, 3}));
  CHECK(documents("documents") ==
        std::vector<TokenSample>{{{50256, 1, 2}, {1, 2, 50256}}, {{50256, -1, -1}, {3, -100, -100}}});
  write_file(file, words_of<std::uint16_t>({1, 2, 3, 4, 5, 6, 7}));
  write_file(folder / "train.idx", megatron_index(8, {2, 1, 4}, {0, 4, 6}, {0, 2, 3}));
  CHECK(documents("documents") ==
        std::vector<TokenSample>{{{1, 2, -1}, {2, 3, -100}}, {{4, 5, 6}, {5, 6, 7}}});
}

TEST_CASE("a token that the vocabulary has not is named with its place") {
  const FolderAndCache folder;
  const fs::path file = folder / "t.bin";
  DatasetOptions options = token_options(file, 2);
  options.vocab_size_given = true;
  options.vocab_size = 100;
  write_file(file, llm_c_file(20240520, 1, 4, words_of<std::uint16_t>({1, 99, 100, 101})));
  CHECK(complaint(options, file) == "offset 1028: token 100, but the vocabulary has 100");
  options.vocab_size = 102;
  CHECK(open_dataset(options, Split::train)->spec().vocab_size == 102);
  write_file(folder / "t.bin", words_of<std::int32_t>({1, -1, 3, 4, 5}));
  options.token_dtype = "uint32";
  options.vocab_size_given = false;
  CHECK(complaint(options, file) == "offset 4: token 4294967295, but the vocabulary has 16777216");
}

TEST_CASE("garbage, cut and empty files of tokens are refused with one clear line") {
  const FolderAndCache folder;
  const fs::path file = folder / "t.bin";
  const fs::path index = folder / "t.idx";
  const auto says = [&](const std::string& bytes) {
    write_file(file, bytes);
    return complaint(token_options(file, 2), file);
  };
  CHECK(says("") == "offset 0: it holds no tokens");
  CHECK(says("abc") == "offset 2: a token of 2 bytes is cut");
  const std::string tokens = words_of<std::uint16_t>({1, 2, 3});
  CHECK(says(llm_c_file(20240520, 2, 3, tokens)) == "offset 4: version 2 of llm.c's format, not 1");
  CHECK(says(llm_c_file(20240520, 1, 4, tokens)) ==
        "offset 1030: 6 bytes of tokens, but its header tells of 4 tokens of 2 bytes");
  CHECK(says(llm_c_file(20240520, 1, -1, tokens)) ==
        "offset 1030: 6 bytes of tokens, but its header tells of 4294967295 tokens of 2 bytes");
  CHECK(says(llm_c_file(20240520, 1, 2, tokens)) ==
        "offset 1028: 6 bytes of tokens, but its header tells of 2 tokens of 2 bytes");
  CHECK(says(llm_c_file(20240520, 1, 0, "")) == "offset 1024: it holds no tokens");
  CHECK(says(llm_c_file(20240520, 1, 0, "").substr(0, 500)) ==
        "offset 500: it ends within llm.c's header: truncated");

  write_file(file, tokens);
  const auto says_of_index = [&](const std::string& bytes) {
    write_file(index, bytes);
    return complaint(token_options(file, 2), index);
  };
  const std::string whole = megatron_index(8, {1, 2}, {0, 2}, {0, 1, 2});
  CHECK(says_of_index("MMIDIDY") == "offset 0: the magic number is not MMIDIDX: no index of Megatron-LM");
  CHECK(says_of_index(megatron_magic) == "offset 9: it ends within the version: truncated");
  CHECK(says_of_index(megatron_magic + words_of<std::uint64_t>({2})) == "offset 9: version 2, not 1");
  CHECK(says_of_index(megatron_index(7, {}, {}, {})) ==
        "offset 17: tokens of float32; write them as uint8, uint16, int32 or int64");
  CHECK(says_of_index(megatron_index(9, {}, {}, {})) == "offset 17: dtype code 9 is unknown");
  for (std::size_t length = megatron_magic.size(); length < whole.size(); ++length)
    CHECK(says_of_index(whole.substr(0, length))
              .starts_with(fmt::format("offset {}: it ends within ", length)));
  CHECK(says_of_index(megatron_index(8, {-1, 4}, {0, 2}, {})) == "offset 34: sequence 0 of -1 tokens");
  CHECK(says_of_index(megatron_index(8, {1, 2}, {0, 4}, {})) ==
        "offset 50: sequence 1 does not begin where the one before it ends");
  CHECK(says_of_index(megatron_index(8, {1, 2}, {0, 2}, {0, 3})) ==
        "offset 66: document 1 begins with sequence 3 of 2");
  CHECK(says_of_index(megatron_index(8, {1, 2}, {0, 2}, {1, 0})) ==
        "offset 66: document 1 begins before the one before it");
  write_file(index, megatron_index(8, {1, 3}, {0, 2}, {0, 2}));
  CHECK(complaint(token_options(file, 2), file) ==
        "offset 6: 6 bytes of tokens, but " + index.string() + " tells of 8");
  write_file(index, whole);
  CHECK(inputs_of(token_options(index, 2)).size() == 2);
}

TEST_CASE("the largest token is looked for once per state of a file") {
  const FolderAndCache folder;
  write_file(folder / "t.bin", words_of<std::uint16_t>({1, 70, 3}));
  const TokenFile file = open_token_file(folder / "t.bin", "");
  CHECK(largest_token(file, {}, nullptr) == 70);
  CHECK(largest_token(file, folder / "cache", nullptr) == 70);
  REQUIRE(files_in(folder / "cache") == 1);
  const fs::path kept = fs::directory_iterator(folder / "cache")->path();
  write_file(kept, "3 of 2 bytes: 71");
  CHECK(largest_token(file, folder / "cache", nullptr) == 71);
  write_file(kept, "3 of 2 bytes: 7x");
  CHECK(largest_token(file, folder / "cache", nullptr) == 70);
  CHECK(contents(kept) == "3 of 2 bytes: 70");
}

TEST_CASE("windows are the same for any number of workers and ranks") {
  const FolderAndCache folder;
  write_file(folder / "t.bin", words_of<std::uint16_t>(numbers(0, 3000)));
  const DatasetPtr set = open_dataset(token_options(folder / "t.bin", 8, "random"), Split::train);
  REQUIRE(set->size() == 2700 / 8);
  constexpr std::int64_t epoch = 4;
  std::vector<Ids> expected;
  for (const TokenSample& sample : all_samples(*set, epoch)) expected.push_back(sample.input);
  std::ranges::sort(expected);
  for (const int ranks : {1, 3}) {
    for (const int workers : {0, 1, 3}) {
      std::vector<Ids> seen;
      for (int rank = 0; rank < ranks; ++rank) {
        const DistributedSampler sampler{
            .samples = set->size(), .replicas = ranks, .rank = rank, .seed = 1, .drop_last = false};
        Loader loader(set, [&](std::int64_t of) { return sampler.rest(of, 0); },
                      {.batch_size = 5, .workers = workers, .first_epoch = epoch, .epochs = 1});
        while (const auto batch = loader.next(Deadline::in(Seconds(60)))) {
          for (std::int64_t row = 0; row < batch->info.counted(); ++row) {
            Ids input(8);
            std::memcpy(input.data(), batch->input.data() + row * 64, 64);
            seen.push_back(std::move(input));
          }
          loader.release(*batch);
        }
      }
      std::ranges::sort(seen);
      CHECK(seen == expected);
    }
  }
}
