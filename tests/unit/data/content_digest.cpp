#include <algorithm>
#include <vector>

#include "kernels/base/activity.h"
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

namespace {

struct Pieces : Dataset {
  explicit Pieces(std::size_t count) : pieces(count, std::string(10, 'a')) {}
  std::int64_t size() const override { return std::ssize(pieces); }
  const SampleSpec& spec() const override { return sample; }
  void get(std::int64_t, std::int64_t, std::span<std::byte>, std::span<std::byte>) const override {}
  void each_content(const TakeBytes& take) const override {
    for (const std::string& piece : pieces) take(std::as_bytes(std::span(piece)));
  }

  std::vector<std::string> pieces;
  SampleSpec sample;
};

}  // namespace

TEST_CASE("a digest of more pieces than blocks takes some of them, and the sizes of all") {
  Pieces data(600);  // of which every third
  Activity activity;
  const std::string before = content_digest_of(data, &activity);
  CHECK(activity.advances() == 600);
  const auto changes = [&](std::size_t index, const std::string& piece) {
    Pieces other = data;
    other.pieces[index] = piece;
    return content_digest_of(other) != before;
  };
  CHECK(changes(0, "aaaaaaaaab"));
  CHECK(changes(597, "aaaaaaaaab"));
  CHECK_FALSE(changes(1, "aaaaaaaaab"));
  CHECK(changes(1, "aaaaaaaaaaa"));
}
