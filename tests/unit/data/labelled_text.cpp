#include "data/text/labelled_text.h"

#include "data/folders.h"
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

DatasetOptions labelled(const fs::path& place) {
  return {.name = "labelled-text", .data_dir = place, .seq_len = 4};
}

}  // namespace

TEST_CASE("lines of label, tab and text are samples, the last tenth of which is evaluated") {
  const TemporaryFolder folder;
  const fs::path file = folder / "a.tsv";
  write_file(file, "10\taab\r\n9\tb\n\n9\tabab\n9\tbbbbbb\n10\ta\tb\n9\ta\n9\ta\n9\ta\n9\ta\n9\tbb\n");
  const DatasetOptions options = labelled(file);
  const DatasetPtr train = open_dataset(options, Split::train);
  REQUIRE(train->size() == 9);
  CHECK(labelled_text_class_names(options) == std::vector<std::string>{"9", "10"});
  CHECK(train->spec().num_classes == 2);
  CHECK(train->spec().vocab_size == 3);
  CHECK(train->spec().input_shape == Shape{4});
  CHECK(train->spec().target_shape == Shape{});
  CHECK(token_sample(*train, 0) == TokenSample{{1, 1, 2, -1}, {1}});
  CHECK(token_sample(*train, 3) == TokenSample{{2, 2, 2, 2}, {0}});
  CHECK(train->length(0) == 3);
  CHECK(train->length(3) == 4);
  CHECK(train->warning() ==
        "1 of 10 lines hold nothing and are left out; "
        "texts longer than --seq-len 4 are cut: 1 of 9; the longest takes 6 tokens");
  CHECK(open_dataset(options, Split::test)->warning().empty());
  CHECK(token_sample(*train, 4) == TokenSample{{1, 0, 2, -1}, {1}});
  CHECK(samples(options, Split::test) == std::vector<TokenSample>{{{2, 2, -1, -1}, {0}}});
  DatasetOptions new_to_weights = labelled(file);
  new_to_weights.data_are_new = true;
  CHECK(open_dataset(new_to_weights, Split::test)->size() == 10);
  CHECK(samples(new_to_weights, Split::test).at(0) == token_sample(*train, 0));
  CHECK(labelled_text_class_names(new_to_weights) == std::vector<std::string>{"9", "10"});
  CHECK(find_dataset(datasets(), "labelled-text").note(new_to_weights).empty());
}

TEST_CASE("which labelled text is evaluated is told, and when it lacks classes") {
  const TemporaryFolder folder;
  const auto note = find_dataset(datasets(), "labelled-text").note;
  const fs::path file = folder / "a.tsv";
  const std::string told = "evaluated is the last tenth of " + file.string() + ", which is not trained on";
  write_file(file, "b\tx\na\tx\n");
  CHECK(note(labelled(file)) == told + "; it lacks 1 of 2 classes: shuffle the lines");
  write_file(file, "a\tx\na\tx\n");
  CHECK(note(labelled(file)) == told);
  put(folder / "d/neg/1.txt", "a");
  CHECK(note(labelled(folder / "d")) == "evaluated are the samples that are trained on: " +
                                            (folder / "d").string() + " has no folders train and val");
  put(folder / "e/train/neg/1.txt", "a");
  CHECK(note(labelled(folder / "e")).empty());
}

TEST_CASE("of several files of labelled text the last tenth of each is evaluated") {
  const TemporaryFolder folder;
  std::string ants, bees;
  for (int i = 0; i < 10; ++i) ants += "ant\tx\n", bees += "bee\ty\n";
  write_file(folder / "train1.tsv", ants);
  write_file(folder / "train2.tsv", bees);
  const DatasetOptions options = labelled(folder.path());
  CHECK(open_dataset(options, Split::train)->size() == 18);
  CHECK(samples(options, Split::test) ==
        std::vector<TokenSample>{{{0, -1, -1, -1}, {0}}, {{1, -1, -1, -1}, {1}}});
  CHECK(find_dataset(datasets(), "labelled-text").note(options) ==
        "evaluated is the last tenth of each of 2 files, " + (folder / "train1.tsv").string() +
            ", ..., which is not trained on");
}

TEST_CASE("a labelled text's place is its line's, also behind empty lines and other files") {
  const TemporaryFolder folder;
  const std::string eight = "x\ta\nx\ta\nx\ta\nx\ta\n\nx\ta\nx\ta\nx\ta\nx\ta\n";  // with an empty line
  put(folder / "d/train1.tsv", eight + "\nx\ta\n\nx\tb\n\n");  // 14 lines, of which the last tenth is line 12
  put(folder / "d/train2.tsv", "\nx\tb\nx\tb\n");
  const DatasetPtr train = open_dataset(labelled(folder / "d"), Split::train);
  const DatasetPtr test = open_dataset(labelled(folder / "d"), Split::test);
  REQUIRE(train->size() == 10);
  CHECK(train->place_of(3) == 3);
  CHECK(train->place_of(4) == 5);
  CHECK(train->place_of(8) == 10);
  CHECK(train->place_of(9) == 15);
  CHECK(train->warning() == "4 of 14 lines hold nothing and are left out");
  REQUIRE(test->size() == 2);
  CHECK(test->place_of(0) == 12);
  CHECK(test->place_of(1) == 16);
  CHECK(test->warning() == "1 of 3 lines hold nothing and are left out");
}

TEST_CASE("other labelled text has the numbers of the classes and characters that weights know") {
  const TemporaryFolder folder;
  write_file(folder / "a.tsv", "dog\tb\ndog\tb\n");
  DatasetOptions options = labelled(folder / "a.tsv");
  options.class_names = {"ant", "cat", "dog"};
  options.token_names = {"a", "b"};
  const DatasetPtr test = open_dataset(options, Split::test);
  CHECK(test->spec().num_classes == 3);
  CHECK(token_sample(*test, 0) == TokenSample{{1, -1, -1, -1}, {2}});
  options.class_names = {"ant"};
  CHECK(complaint(options, folder / "a.tsv", Split::test) == "training has no class 'dog'");
}

TEST_CASE("folders of text files are classes, and files have one class each") {
  const TemporaryFolder folder;
  put(folder / "d/train/pos/1.txt", "ab\n");
  put(folder / "d/train/pos/more/2.txt", "a");
  put(folder / "d/train/neg/1.txt", "b");
  put(folder / "d/train/neg/notes.md", "zz");
  put(folder / "d/val/neg/1.txt", "c");
  const DatasetOptions options = labelled(folder / "d");
  CHECK(labelled_text_class_names(options) == std::vector<std::string>{"neg", "pos"});
  CHECK(samples(options, Split::train) ==
        std::vector<TokenSample>{{{1, -1, -1, -1}, {0}}, {{0, 1, -1, -1}, {1}}, {{0, -1, -1, -1}, {1}}});
  CHECK(samples(options, Split::test) == std::vector<TokenSample>{{{2, -1, -1, -1}, {0}}});
  put(folder / "d/val/odd/1.txt", "c");
  CHECK(complaint(options, folder / "d/val/odd/1.txt") == "training has no class 'odd'");
  put(folder / "d/train/neg/1.txt", "\n");
  CHECK(complaint(options, folder / "d/train/neg/1.txt") == "offset 0: the file holds no text");
  fs::create_directories(folder / "d/train/new");
  put(folder / "d/train/neg/1.txt", "b");
  CHECK(complaint(options, folder / "d/train/new") == "no .txt files for this class");
  put(folder / "f/caf\xe9/1.txt", "a");
  CHECK(complaint(labelled(folder / "f"), folder / "f/caf\xe9") ==
        "the name of this class is no UTF-8, as weights keep names: rename it");
  fs::create_directory(folder / "e");
  CHECK(complaint(labelled(folder / "e"), folder / "e") ==
        "neither train*.tsv files nor folders of .txt files for each class are here");
}

TEST_CASE("labelled text that is wrong is named with its place") {
  const TemporaryFolder folder;
  const fs::path file = folder / "a.tsv";
  const auto says = [&](const std::string& bytes) {
    write_file(file, bytes);
    return complaint(labelled(file), file);
  };
  CHECK(says("") == "offset 0: the file has no lines");
  CHECK(says("a\tb\nc d\n") == "offset 4: this line has no tab between label and text");
  CHECK(says("a\tb\n\tc\n") == "offset 4: this line has no label, or no text");
  CHECK(says("a\tb\nc\t\n") == "offset 4: this line has no label, or no text");
  CHECK(says("a\t\xFF\n").starts_with("offset 2: byte 0xff is no UTF-8"));
  write_file(file, "a\tb\n");
  CHECK(complaint(labelled(file), file) == "too few texts to hold a tenth back");
  DatasetOptions options = labelled(file);
  options.per_token = true;
  CHECK(refusal(options) ==
        "labelled-text has a class for each text, and the model wants one for each token: take rnn");
}

TEST_CASE("texts take the tokens of a tokenizer") {
  const TemporaryFolder folder;
  write_file(folder / "a.tsv", "x\tthe king\ny\tthe\n");
  DatasetOptions options = labelled(folder / "a.tsv");
  options.tokenizer = TOKENIZER;
  const DatasetPtr train = open_dataset(options, Split::train);
  CHECK(train->spec().vocab_size == 1500);
  const auto ids = open_tokenizer(TOKENIZER)->encode("the king");
  CHECK(token_sample(*train, 0).input[0] == ids[0]);
  CHECK(token_sample(*train, 0).input[ids.size() - 1] == ids.back());
  write_characters(folder / "c.json", {"t", "h", "e", " "});
  options.tokenizer = folder / "c.json";
  CHECK(complaint(options, folder / "a.tsv") ==
        "offset 6: U+006B is no character of the 4 that the vocabulary has");
}

TEST_CASE("folders of classes may have a split alone, and lack the other only where it is wanted") {
  const TemporaryFolder folder;
  put(folder / "d/train/x/1.txt", "a");
  CHECK(samples(labelled(folder / "d"), Split::train).size() == 1);
  CHECK(message_of<DataError>([&] {
          open_dataset(labelled(folder / "d"), Split::test);
        }).starts_with((folder / "d").string() + ": beside train there is no val"));
  put(folder / "e/test/y/1.txt", "a");
  put(folder / "e/test/x/1.txt", "a");
  CHECK(samples(labelled(folder / "e"), Split::test) ==
        std::vector<TokenSample>{{{0, -1, -1, -1}, {0}}, {{0, -1, -1, -1}, {1}}});
  CHECK(message_of<DataError>([&] { open_dataset(labelled(folder / "e"), Split::train); }) ==
        (folder / "e").string() + ": there is no train beside test");
}

TEST_CASE("a byte order mark is no part of a text") {
  const TemporaryFolder folder;
  const std::string mark = "\xEF\xBB\xBF";
  put(folder / "d/train.tsv", mark + "2\ta\n10\tb\n");
  put(folder / "d/val.tsv", mark + "2\tb\n");
  CHECK(labelled_text_class_names(labelled(folder / "d")) == std::vector<std::string>{"2", "10"});
  CHECK(samples(labelled(folder / "d"), Split::train) ==
        std::vector<TokenSample>{{{0, -1, -1, -1}, {0}}, {{1, -1, -1, -1}, {1}}});
  CHECK(samples(labelled(folder / "d"), Split::test).size() == 1);
  write_file(folder / "a.tsv", mark + "a b\n");
  CHECK(complaint(labelled(folder / "a.tsv"), folder / "a.tsv") ==
        "offset 3: this line has no tab between label and text");
  put(folder / "e/train/x/1.txt", mark + "a");
  put(folder / "e/val/x/1.txt", "a");
  CHECK(samples(labelled(folder / "e"), Split::train) == std::vector<TokenSample>{{{0, -1, -1, -1}, {0}}});
}

TEST_CASE("whole words of a file's name tell its split before parts of words, and test waits behind val") {
  const TemporaryFolder folder;
  for (const char* name : {"pretrain_train.bin", "pretrain_val.bin", "constraints-test.bin", "trainset2.bin",
                           "train_values.bin", "latest.bin", "other.bin"})
    write_file(folder / name, "");
  const auto names = [](const std::vector<fs::path>& files) {
    std::vector<std::string> all;
    for (const fs::path& file : files) all.push_back(file.filename().string());
    return all;
  };
  const SplitFiles files = split_files({.data_dir = folder.path()}, ".bin");
  CHECK(names(files.train) ==
        std::vector<std::string>{"pretrain_train.bin", "train_values.bin", "trainset2.bin"});
  CHECK(names(files.test) == std::vector<std::string>{"pretrain_val.bin"});
  CHECK(names(files.set_aside) == std::vector<std::string>{"constraints-test.bin", "latest.bin"});
  fs::remove(folder / "pretrain_val.bin");
  const SplitFiles without = split_files({.data_dir = folder.path()}, ".bin");
  CHECK(names(without.test) == std::vector<std::string>{"constraints-test.bin", "latest.bin"});
  CHECK(without.set_aside.empty());
}
