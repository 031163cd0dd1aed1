// Documents behind each other in windows.
#include "data/text/packed_windows.h"

#include <algorithm>

#include "kernels/base/philox.h"
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

/// Files of tokens, of which train.bin is trained on.
struct Tokens : TemporaryFolder {
  Tokens(const Ids& train, const Ids& val) {
    write_file(*this / "train.bin", words_of<std::uint16_t>(train));
    write_file(*this / "val.bin", words_of<std::uint16_t>(val));
  }

  DatasetPtr open(std::int64_t length, const std::string& windows, Split split = Split::train,
                  std::uint64_t seed = 7) const {
    return open_dataset({.name = "tokens",
                         .data_dir = *this / "train.bin",
                         .seq_len = length,
                         .per_token = true,
                         .seed = seed,
                         .windows = windows},
                        split);
  }

  const Variable cache{"XDG_CACHE_HOME", (*this / "kept").string()};
};

const Ids three_documents{9, 1, 2, 9, 3, 9, 4, 5, 6, 7, 8};

/// Documents of 1 to 20 tokens behind a boundary of 0, each of a token of its own.
Ids many_documents(std::int64_t count) {
  Ids tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(0);
    const std::int64_t length = 1 + Philox(3, 4).below(20, static_cast<std::uint64_t>(i));
    tokens.insert(tokens.end(), static_cast<std::size_t>(length), i + 1);
  }
  return tokens;
}

/// Its inputs, each with the token that follows the last, where its positions begin anew.
std::vector<Ids> documents_in(const TokenSample& sample) {
  const std::size_t length = sample.target.size();
  std::vector<Ids> documents;
  for (std::size_t at = 0; at < length && sample.input[at] != padding_token; ++at) {
    const auto position = static_cast<std::size_t>(sample.input[length + at]);
    if (position == 0) documents.push_back({sample.input[at]});
    REQUIRE(position + 1 == documents.back().size());
    REQUIRE(documents.back().back() == sample.input[at]);
    documents.back().push_back(sample.target[at]);
  }
  return documents;
}

std::vector<Ids> documents_of(const Dataset& set, std::int64_t epoch) {
  std::vector<Ids> documents;
  for (const TokenSample& sample : all_samples(set, epoch)) {
    for (Ids& document : documents_in(sample)) documents.push_back(std::move(document));
  }
  return documents;
}

}  // namespace

TEST_CASE("windows hold whole documents, whose positions begin anew, and pieces of longer ones") {
  const Tokens files(three_documents, {1, 2});
  const DatasetPtr whole = files.open(5, "packed=9");
  CHECK(whole->spec().packed);
  CHECK(whole->spec().input_shape == Shape{10});
  CHECK(whole->spec().target_shape == Shape{5});
  CHECK(all_samples(*whole) == std::vector<TokenSample>{{{9, 4, 5, 6, 7, 0, 1, 2, 3, 4}, {4, 5, 6, 7, 8}},
                                                        {{9, 1, 2, 9, 3, 0, 1, 2, 0, 1}, {1, 2, 9, 3, 9}}});
  CHECK(whole->note() == "packed: 3 documents in 2 windows of 5 tokens, of which 0.00 % are padding");
  const DatasetPtr cut = files.open(4, "packed=9");
  CHECK(all_samples(*cut) == std::vector<TokenSample>{{{9, 4, 5, 6, 0, 1, 2, 3}, {4, 5, 6, 7}},
                                                      {{9, 1, 2, 7, 0, 1, 2, 0}, {1, 2, 9, 8}},
                                                      {{9, 3, -1, -1, 0, 1, -1, -1}, {3, 9, -100, -100}}});
  CHECK(cut->valid_targets(1, 0) == 4);
  CHECK(cut->valid_targets(2, 0) == 2);
  CHECK(cut->note() == "packed: 3 documents in 3 windows of 4 tokens, of which 16.67 % are padding");
  Ids input(8);
  Ids target(4);
  cut->get(2, 0, std::as_writable_bytes(std::span(input)), std::as_writable_bytes(std::span(target)));
  CHECK(tokens_in(cut->spec(), std::as_bytes(std::span(input))) == 2);
  cut->get(0, 0, std::as_writable_bytes(std::span(input)), std::as_writable_bytes(std::span(target)));
  CHECK(tokens_in(cut->spec(), std::as_bytes(std::span(input))) == 4);
}

TEST_CASE("what is evaluated lies side by side, in order, and its documents do not see each other either") {
  const Tokens files({1, 2}, three_documents);
  CHECK(all_samples(*files.open(4, "packed=9", Split::test)) ==
        std::vector<TokenSample>{{{9, 1, 2, 9, 0, 1, 2, 0}, {1, 2, 9, 3}},
                                 {{3, 9, 4, 5, 0, 0, 1, 2}, {9, 4, 5, 6}},
                                 {{6, 7, -1, -1, 0, 1, -1, -1}, {7, 8, -100, -100}}});
}

TEST_CASE("documents of Megatron's index and of text are packed, without a target across their ends") {
  const Tokens files({1, 2, 3, 4, 5, 6, 7}, {1, 2});
  write_file(files / "train.idx", std::string("MMIDIDX\0\0", 9) + words_of<std::uint64_t>({1}) +
                                      words_of<std::uint8_t>({8}) + words_of<std::uint64_t>({2, 3}) +
                                      words_of<std::int32_t>({3, 4}) + words_of<std::int64_t>({0, 6}) +
                                      words_of<std::int64_t>({0, 1, 2}));
  CHECK(all_samples(*files.open(5, "packed")) ==
        std::vector<TokenSample>{{{4, 5, 6, 1, 2, 0, 1, 2, 0, 1}, {5, 6, 7, 2, 3}}});

  write_file(files / "text_train.txt", "abc\n\na\n");
  write_file(files / "text_val.txt", "b\n\nca");
  const DatasetOptions text{
      .name = "text", .data_dir = files.path(), .seq_len = 6, .per_token = true, .windows = "packed"};
  CHECK(all_samples(*open_dataset(text, Split::train)) ==
        std::vector<TokenSample>{{{1, 2, 3, 0, 1, -1, 0, 1, 2, 3, 0, -1}, {2, 3, 0, 0, 0, -100}}});
  CHECK(all_samples(*open_dataset(text, Split::test)) ==
        std::vector<TokenSample>{{{2, 0, 3, -1, -1, -1, 0, 1, 0, -1, -1, -1}, {0, 0, 1, -100, -100, -100}}});
}

TEST_CASE("every document comes once an epoch, lies elsewhere in the next, and few positions are padding") {
  const Tokens files(many_documents(2000), {1, 2});
  const DatasetPtr set = files.open(64, "packed=0");
  std::vector<Ids> first = documents_of(*set, 0);
  std::vector<Ids> second = documents_of(*set, 1);
  CHECK(first.size() == 2000);
  CHECK(first != second);
  CHECK(documents_of(*files.open(64, "packed=0"), 1) == second);
  CHECK(documents_of(*files.open(64, "packed=0", Split::train, 8), 1) != second);
  // Which of equally long documents lie together is left to chance.
  const auto neighbours = [&](const std::vector<Ids>& documents) {
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
    for (std::size_t i = 1; i < documents.size(); ++i)
      pairs.emplace_back(documents[i - 1][1], documents[i][1]);
    std::ranges::sort(pairs);
    return pairs;
  };
  std::vector<std::pair<std::int64_t, std::int64_t>> kept;
  const auto pairs_before = neighbours(first);
  const auto pairs_after = neighbours(second);
  std::ranges::set_intersection(pairs_before, pairs_after, std::back_inserter(kept));
  CHECK(kept.size() < 60);  // of 2000, each with about 100 documents in the place of its neighbour
  std::ranges::sort(first);
  std::ranges::sort(second);
  CHECK(first == second);
  for (std::int64_t i = 0; i < set->size(); ++i) {
    const TokenSample sample = token_sample(*set, i, 1);
    CHECK(set->valid_targets(i, 1) ==
          valid_targets_in(set->spec(), {}, std::as_bytes(std::span(sample.target))));
  }
  std::int64_t tokens = 0;
  for (const Ids& document : first) tokens += std::ssize(document) - 1;
  CHECK(100 * tokens > 99 * 64 * set->size());
}
