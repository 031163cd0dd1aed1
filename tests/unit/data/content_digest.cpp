#include <algorithm>

#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/data/text_files.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::data::testing;
using namespace lockstep::tests;

TEST_CASE("a digest of small labelled text is of all of it, of large text of blocks of it") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "a.tsv";
  const auto digest = [&](const std::string& text) {
    write_file(file, text);
    return content_digest_of(
        *open_dataset({.name = "labelled-text", .data_dir = file, .seq_len = 4}, Split::train));
  };
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += i % 2 == 0 ? "x\tab\n" : "y\tabc\n";
  const std::string before = digest(text);
  CHECK(before.size() == 16);
  CHECK(digest(text) == before);
  text[5] = 'x';  // the second label
  CHECK(digest(text) != before);
  text[5] = 'y';
  text[7] = 'b';
  CHECK(digest(text) != before);
  std::string large = "x\t" + std::string(2 << 20, 'a') + "\ny\tb\n";
  const std::string of_large = digest(large);
  CHECK(digest(large) == of_large);
  std::fill_n(large.begin() + (1 << 20), 100'000, 'b');
  CHECK(digest(large) != of_large);
}
