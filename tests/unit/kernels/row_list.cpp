#include "kernels/row_list.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include "kernels/base/half.h"
#include "kernels/embedding.h"
#include "tests/unit/kernels/harness.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

using Rows = std::map<std::int32_t, std::vector<float>>;

struct Pair {
  std::vector<std::int64_t> tokens;
  std::vector<float> dy;
};

/// With padding, numbers that are no rows, and numbers that come again.
Pair pair_of(std::int64_t tokens, std::int64_t vocab, std::int64_t dim, unsigned seed) {
  Pair pair;
  for (const double value : random_values({tokens}, seed).data) {
    const auto token = static_cast<std::int64_t>(value * value * static_cast<double>(vocab + 2)) - 1;
    pair.tokens.push_back(token);
  }
  for (const double value : random_values({tokens, dim}, seed + 1).data) {
    pair.dy.push_back(static_cast<float>(value) / 3);  // sums round
  }
  return pair;
}

void launch(const KernelPtr& kernel, std::vector<void*> addresses) {
  const auto workspace = device().allocate(std::max<std::size_t>(kernel->workspace_bytes(), 64));
  const auto stream = device().make_stream();
  const auto bound = kernel->bind(addresses, workspace->data());
  bound->launch(*stream);
  bound->launch(*stream);  // must not depend on the first
  stream->synchronize();
}

std::vector<std::byte> list_of(const std::vector<Pair>& pairs, const EmbeddingRows& op, std::int64_t dim) {
  KernelIo io;
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<void*> addresses;
  for (const Pair& pair : pairs) {
    const auto tokens = static_cast<std::int64_t>(pair.tokens.size());
    io.inputs.push_back({DType::f32, {tokens, dim}, {}});
    io.inputs.push_back({DType::i64, {tokens}, {}});
    memory.push_back(upload(pair.dy));
    memory.push_back(upload(pair.tokens));
  }
  const Types out = op.infer(types_of(io.inputs));
  io.outputs.push_back({out[0].dtype, out[0].shape, {}});
  memory.push_back(upload(std::vector<std::byte>(io.outputs[0].bytes(), std::byte{0xA5})));
  for (const auto& part : memory) addresses.push_back(part->data());
  launch(kernel_for(device(), op, io), addresses);
  return download<std::byte>(*memory.back());
}

float float_at(const std::byte* at, DType dtype) {
  if (dtype == DType::bf16) {
    BFloat16 half;
    std::memcpy(&half, at, sizeof(half));
    return widen(half);
  }
  float value = 0;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

float rounded(float value, DType dtype) {
  if (dtype != DType::bf16) return value;
  BFloat16 half;
  narrow(value, half);
  return widen(half);
}

Rows read_list(const std::vector<std::byte>& list, const RowListShape& shape) {
  RowListHeader header;
  std::memcpy(&header, list.data(), sizeof(header));
  REQUIRE(header.rows <= shape.capacity);
  CHECK(header.bytes == static_cast<std::int64_t>(shape.bytes_with(header.rows)));
  Rows rows;
  std::int32_t before = -1;
  for (std::int64_t i = 0; i < header.rows; ++i) {
    std::int32_t number = 0;
    std::memcpy(&number, list.data() + RowListShape::numbers_at() + static_cast<std::size_t>(i) * 4, 4);
    CHECK(number > before);
    before = number;
    const std::byte* const row =
        list.data() + shape.values_at() + static_cast<std::size_t>(i) * shape.row_bytes();
    for (std::int64_t k = 0; k < shape.dim; ++k)
      rows[number].push_back(float_at(row + static_cast<std::size_t>(k) * size_of(shape.dtype), shape.dtype));
  }
  return rows;
}

/// Rows of equal tokens, added in their order.
Rows added(const std::vector<Pair>& pairs, std::int64_t vocab, std::int64_t dim, DType dtype) {
  Rows rows;
  for (const Pair& pair : pairs) {
    for (std::size_t n = 0; n < pair.tokens.size(); ++n) {
      if (pair.tokens[n] < 0 || pair.tokens[n] >= vocab) continue;
      std::vector<float>& row = rows[static_cast<std::int32_t>(pair.tokens[n])];
      row.resize(static_cast<std::size_t>(dim));
      for (std::size_t k = 0; k < row.size(); ++k) row[k] += pair.dy[n * row.size() + k];
    }
  }
  for (auto& [number, row] : rows) {
    for (float& value : row) value = rounded(value, dtype);
  }
  return rows;
}

std::vector<std::byte> list_from(const Rows& rows, const RowListShape& shape) {
  std::vector<std::byte> list(shape.bytes(), std::byte{0xFF});  // not numbers behind what is in use
  const auto count = static_cast<std::int64_t>(rows.size());
  const RowListHeader header{static_cast<std::int64_t>(shape.bytes_with(count)), count};
  std::memcpy(list.data(), &header, sizeof(header));
  std::size_t at = 0;
  for (const auto& [number, row] : rows) {
    std::memcpy(list.data() + RowListShape::numbers_at() + at * 4, &number, 4);
    std::byte* const to = list.data() + shape.values_at() + at * shape.row_bytes();
    for (std::size_t k = 0; k < row.size(); ++k) {
      BFloat16 half;
      narrow(row[k], half);
      if (shape.dtype == DType::bf16) {
        std::memcpy(to + k * 2, &half, 2);
      } else {
        std::memcpy(to + k * 4, &row[k], 4);
      }
    }
    ++at;
  }
  return list;
}

/// In the tree whose left part has the greatest power of two below the number of ranks.
float sum_of(const std::vector<Rows>& ranks, std::size_t first, std::size_t end, std::int32_t row,
             std::size_t k) {
  if (end - first == 1) {
    const auto found = ranks[first].find(row);
    return found == ranks[first].end() ? 0 : found->second[k];
  }
  std::size_t left = 1;
  while (2 * left < end - first) left *= 2;
  return sum_of(ranks, first, first + left, row, k) + sum_of(ranks, first + left, end, row, k);
}

}  // namespace

TEST_CASE("a gradient as rows: those of embedding_backward, sorted, each once") {
  const std::int64_t dim = GENERATE(1, 7, 64, 300);
  const std::int64_t tokens = GENERATE(1, 50, 1500);
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  CAPTURE(dim, tokens, name_of(dtype));
  constexpr std::int64_t vocab = 90;
  const Pair pair = pair_of(tokens, vocab, dim, 1);
  const EmbeddingRows op{.vocab = vocab, .capacity = std::min(tokens, vocab), .dtype = dtype};
  const Rows rows = read_list(list_of({pair}, op, dim), {dim, op.capacity, dtype});
  CHECK(rows == added({pair}, vocab, dim, dtype));
}

TEST_CASE("a gradient as rows: runs of equal tokens of any length") {
  // A GPU takes runs of up to 64 to 127 rows in one way, longer ones in batches of 256.
  const auto runs =
      GENERATE(std::vector<std::int64_t>{1000}, std::vector<std::int64_t>{256, 1, 512, 255, 257},
               std::vector<std::int64_t>{64, 64, 128, 1, 63, 127, 65, 2, 129, 31, 33, 32, 7, 6},
               std::vector<std::int64_t>{3, 150, 1, 1, 70, 70, 70, 5, 300, 4});
  const std::int64_t dim = GENERATE(1, 31, 33, 36, 128);
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  CAPTURE(runs, dim, name_of(dtype));
  const auto vocab = static_cast<std::int64_t>(runs.size());
  std::int64_t tokens = 2;
  for (const std::int64_t run : runs) tokens += run;
  Pair pair = pair_of(tokens, vocab, dim, 11);
  std::vector<std::int64_t> left = runs;
  left.push_back(2);  // padding
  std::size_t token = 0;
  for (std::int64_t& at : pair.tokens) {
    while (left[token] == 0) token = (token + 1) % left.size();
    --left[token];
    at = token < runs.size() ? static_cast<std::int64_t>(token) : -1;
    token = (token + 1) % left.size();
  }
  const EmbeddingRows op{.vocab = vocab, .capacity = vocab, .dtype = dtype};
  const Rows rows = read_list(list_of({pair}, op, dim), {dim, op.capacity, dtype});
  CHECK(rows == added({pair}, vocab, dim, dtype));
}

TEST_CASE("a gradient as rows: tokens enough to be sorted in several passes") {
  const std::int64_t tokens = GENERATE(512, 513, 4096, 4097, 9001, 70001);
  const std::int64_t vocab = GENERATE(5, 400, 100000);
  CAPTURE(tokens, vocab);
  const Pair pair = pair_of(tokens, vocab, 1, 13);
  const EmbeddingRows op{.vocab = vocab, .capacity = std::min(tokens, vocab)};
  const Rows rows = read_list(list_of({pair}, op, 1), {1, op.capacity, DType::f32});
  CHECK(rows == added({pair}, vocab, 1, DType::f32));
}

TEST_CASE("a gradient as rows: embeddings of several batches of tokens in one list") {
  constexpr std::int64_t vocab = 60;
  constexpr std::int64_t dim = 12;
  std::vector<Pair> pairs{pair_of(30, vocab, dim, 3), pair_of(17, vocab, dim, 5), pair_of(9, vocab, dim, 7)};
  if (GENERATE(false, true)) {
    pairs.push_back(pair_of(301, vocab, dim, 9));
    std::fill(pairs[1].tokens.begin(), pairs[1].tokens.end(), 3);
    std::fill_n(pairs[3].tokens.begin(), 200, 3);
  }
  const EmbeddingRows op{.vocab = vocab, .capacity = vocab};
  const Rows rows = read_list(list_of(pairs, op, dim), {dim, op.capacity, DType::f32});
  CHECK(rows == added(pairs, vocab, dim, DType::f32));
}

TEST_CASE("a gradient as rows: a batch of nothing but padding has none") {
  const Pair padding{{-1, -1, 1000}, std::vector<float>(3 * 4, 1.0F)};
  const EmbeddingRows op{.vocab = 20, .capacity = 3};
  CHECK(read_list(list_of({padding}, op, 4), {4, 3, DType::f32}).empty());
}

TEST_CASE("a gradient as rows: rows of no numbers have none, and rows that no grid covers are refused") {
  const Pair pair{std::vector<std::int64_t>(100, 3), {}};
  const EmbeddingRows op{.vocab = 20, .capacity = 20};
  CHECK(read_list(list_of({pair}, op, 0), {0, op.capacity, DType::f32}).empty());
  if (device().is_cpu()) return;
  KernelIo io{{{DType::f32, {1, 2097121}, {}}, {DType::i64, {1}, {}}}, {}};
  const TensorType list = op.infer(types_of(io.inputs)).front();
  io.outputs.push_back({list.dtype, list.shape, {}});
  CHECK_THROWS_WITH(kernel_for(device(), op, io), Catch::Contains("at most 2097120"));
}

TEST_CASE("a gradient as rows: more tokens than there is room for are refused") {
  const EmbeddingRows op{.vocab = 90, .capacity = 3};
  CHECK_THROWS_WITH(op.infer(Types{{DType::f32, {4, 2}}, {DType::i64, {4}}}), Catch::Contains("room"));
}

TEST_CASE("rows of all ranks are added in the tree over the ranks, and rounded once") {
  const int ranks = GENERATE(1, 2, 3, 5, 6, 8, 11);
  const std::int64_t dim = GENERATE(3, 900);  // of few ranks one thread adds them, of more a team
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const bool overwrites = GENERATE(false, true);
  CAPTURE(ranks, dim, name_of(dtype), overwrites);
  constexpr std::int64_t vocab = 40;
  constexpr std::int64_t capacity = 14;
  const RowListShape shape{dim, capacity, dtype};
  std::vector<Rows> of_ranks;
  std::vector<std::byte> lists;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t tokens = rank == 1 ? 1 : capacity;
    of_ranks.push_back(
        added({pair_of(tokens, vocab, dim, 20 + static_cast<unsigned>(rank))}, vocab, dim, dtype));
    const std::vector<std::byte> list = list_from(of_ranks.back(), shape);
    lists.insert(lists.end(), list.begin(), list.end());
  }
  const KernelIo io{{{DType::u8, {ranks, static_cast<std::int64_t>(shape.bytes())}, {}}},
                    {{dtype, {vocab, dim}, {}}}};
  const Values before = random_values({vocab, dim}, 99);
  const auto sum = pack(before, Layout::row_major({vocab, dim}), dtype);
  const auto memory = upload(lists);
  const auto kernel = kernel_for(device(), AddRows{.capacity = capacity, .overwrites = overwrites}, io);
  const std::array<void*, 2> addresses{memory->data(), sum->data()};
  const auto stream = device().make_stream();
  const auto workspace = device().allocate(std::max<std::size_t>(kernel->workspace_bytes(), 64));
  const auto bound = kernel->bind(addresses, workspace->data());
  bound->launch(*stream);
  stream->synchronize();
  const Values got = unpack(*sum, {vocab, dim}, Layout::row_major({vocab, dim}), dtype);
  for (std::int32_t row = 0; row < vocab; ++row) {
    for (std::size_t k = 0; k < static_cast<std::size_t>(dim); ++k) {
      const std::size_t at = static_cast<std::size_t>(row) * static_cast<std::size_t>(dim) + k;
      const float held = overwrites ? 0 : rounded(static_cast<float>(before.data[at]), dtype);
      const float wanted = rounded(held + sum_of(of_ranks, 0, of_ranks.size(), row, k), dtype);
      if (static_cast<float>(got.data[at]) != wanted) FAIL("row " << row << ", column " << k);
    }
  }
}
