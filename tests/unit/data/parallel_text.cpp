#include "data/text/parallel_text.h"

#include "data/text/tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/data/text_files.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::data::testing;
using namespace lockstep::tests;

namespace {

namespace fs = std::filesystem;

DatasetOptions parallel(const fs::path& place) {
  return {.name = "parallel-text", .data_dir = place, .seq_len = 4, .per_token = true};
}

}  // namespace

TEST_CASE("lines of two files are a row of source and translation, parted by a boundary") {
  const TemporaryFolder folder;
  std::string source = "abc\nabcdef\n\nb\na\n", target = "c\nbbbb\nc\nccc\n\n";
  for (int i = 0; i < 15; ++i) source += "d\n", target += "e\n";
  write_file(folder / "a.src", source);
  write_file(folder / "a.tgt", target);
  const DatasetOptions options = parallel(folder / "a.src");
  const DatasetPtr train = open_dataset(options, Split::train);
  CHECK(train->spec().vocab_size == 7);  // a to f, and the boundary
  CHECK(train->spec().num_classes == 7);
  CHECK(train->spec().source_length == 4);
  CHECK(train->spec().input_shape == Shape{8});
  CHECK(train->spec().target_shape == Shape{4});
  CHECK(parallel_text_class_names(options) == std::vector<std::string>{"a", "b", "c", "d", "e", "f", ""});
  REQUIRE(train->size() == 16);  // of 18 lines two have an empty side
  CHECK(train->place_of(1) == 1);
  CHECK(train->place_of(2) == 3);
  CHECK(train->place_of(3) == 5);
  CHECK(train->warning() ==
        "2 of 18 pairs of lines have an empty side and are left out; "
        "texts longer than --seq-len 4 are cut: 1 of 16; the longest takes 6 tokens");
  CHECK(open_dataset(options, Split::test)->place_of(1) == 19);
  CHECK(token_sample(*train, 0) == TokenSample{{0, 1, 2, -1, 6, 2, -1, -1}, {2, 6, -100, -100}});
  CHECK(token_sample(*train, 1) == TokenSample{{0, 1, 2, 3, 6, 1, 1, 1}, {1, 1, 1, 1}});
  CHECK(token_sample(*train, 2) == TokenSample{{1, -1, -1, -1, 6, 2, 2, 2}, {2, 2, 2, 6}});
  CHECK(train->length(0) == 6);
  CHECK(train->length(2) == 8);
  for (std::int64_t i = 0; i < 3; ++i)
    CHECK(train->valid_targets(i, 0) == train->Dataset::valid_targets(i, 0));
  CHECK(open_dataset(options, Split::test)->size() == 2);
  DatasetOptions apart = parallel(folder / "b.txt");
  fs::rename(folder / "a.src", folder / "b.txt");
  CHECK(refusal(apart) == "parallel-text: where are the translations of " + (folder / "b.txt").string() +
                              "? give them by --target-file FILE");
  apart.target_file = folder / "a.tgt";
  CHECK(samples(apart, Split::train) == all_samples(*train));
  DatasetOptions known = apart;
  known.token_names = {"a", "b", "c", "d", "e"};
  CHECK(complaint(known, folder / "b.txt") ==
        "offset 9: U+0066 is no character of the 5 that the vocabulary has");
  write_file(folder / "a.tgt", target + "e\n");
  CHECK(complaint(apart, folder / "a.tgt") == "21 lines, but " + (folder / "b.txt").string() + " has 20");
  apart.per_token = false;
  write_file(folder / "a.tgt", target);
  CHECK(refusal(apart) ==
        "parallel-text has a target for each token, which the model does not want: take transformer");
}

TEST_CASE("a folder has pairs of files for training and evaluation") {
  const TemporaryFolder folder;
  put(folder / "d/train.src", "a\nb\n");
  put(folder / "d/train.tgt", "b\na\n");
  put(folder / "d/val.src", "a\n");
  put(folder / "d/val.tgt", "c\n");
  CHECK(samples(parallel(folder / "d"), Split::train).size() == 2);
  CHECK(samples(parallel(folder / "d"), Split::test) ==
        std::vector<TokenSample>{{{0, -1, -1, -1, 3, 2, -1, -1}, {2, 3, -100, -100}}});
  fs::remove(folder / "d/val.tgt");
  CHECK(complaint(parallel(folder / "d"), folder / "d/val.tgt").starts_with("cannot open"));
}

TEST_CASE("a translation that is cut before its end is told of, as a source is") {
  const TemporaryFolder folder;
  const auto warning = [&](const std::string& source, const std::string& target) {
    write_file(folder / "a.src", "a\n" + source + "\na\n");
    write_file(folder / "a.tgt", "b\n" + target + "\nb\n");
    return open_dataset(parallel(folder / "a.src"), Split::train)->warning();
  };
  CHECK(warning("aaaa", "bbb").empty());
  CHECK(warning("a", "bbbb") == "texts longer than --seq-len 4 are cut: 1 of 2; the longest takes 5 tokens");
  CHECK(warning("aaaaaa", "b") ==
        "texts longer than --seq-len 4 are cut: 1 of 2; the longest takes 6 tokens");
}

TEST_CASE("new pairs have the places of their lines, and those that are left out are counted") {
  const TemporaryFolder folder;
  write_file(folder / "e.src", "abc\n\nhhh\nabc\n");
  write_file(folder / "e.tgt", "cba\na\nhhh\n\n");
  DatasetOptions options = parallel(folder / "e.src");
  options.data_are_new = true;
  const DatasetPtr pairs = open_dataset(options, Split::test);
  REQUIRE(pairs->size() == 2);
  CHECK(pairs->place_of(0) == 0);
  CHECK(pairs->place_of(1) == 2);
  CHECK(pairs->warning() == "2 of 4 pairs of lines have an empty side and are left out");
}
