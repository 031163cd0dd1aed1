// Attention with several documents in a row, none of which sees another.
#include "tests/ops/attention_case.h"

namespace lockstep::ops {
namespace {

/// Of rows of `length` tokens: documents of these lengths behind each other, and then padding.
std::vector<std::int64_t> positions_of(std::int64_t length,
                                       const std::vector<std::vector<std::int64_t>>& documents_of_rows) {
  std::vector<std::int64_t> positions;
  std::size_t end_of_row = 0;
  for (const auto& documents : documents_of_rows) {
    for (const std::int64_t document : documents) {
      for (std::int64_t at = 0; at < document; ++at) positions.push_back(at);
    }
    positions.resize(end_of_row += static_cast<std::size_t>(length), -1);
  }
  return positions;
}

}  // namespace

TEST_CASE("attention: documents in a row do not see each other") {
  const auto check_rows = [](const Attention& op, std::int64_t length, std::int64_t columns,
                             const std::vector<std::vector<std::int64_t>>& documents) {
    const Shape shape{std::ssize(documents), length, columns};
    AttentionCase c{.op = op, .q = shape, .k = shape, .positions = positions_of(length, documents)};
    if (op.masked) c.tokens = padded_tokens(shape[0], length, {length - 9});
    check(c);
  };
  Attention op{.heads = 2, .causal = true, .documents = true, .scale = 0.5};
  check_rows(op, 7, 10, {{1, 2, 4}, {7}, {3, 1}, {}});
  // At the borders of tiles of 32, 48 and 128, and with whole tiles that are not looked at, or are padding.
  check_rows(op, 200, 6, {{128, 1, 70}, {47, 49, 33, 20}});
  check_rows(op, 200, 6, {{200}, {1, 31, 64, 1}});
  op.masked = true;
  op.p = 0.2;
  op.stream = 12;
  check_rows(op, 150, 8, {{30, 100, 19}});
}

TEST_CASE("attention: documents in a row are computed as each is alone") {
  const std::vector<std::int64_t> lengths{60, 1, 130, 9};
  const Shape row{1, 200, 12};
  const Attention op{.heads = 2, .causal = true, .documents = true, .scale = 0.5};
  const AttentionCase together{.op = op, .q = row, .k = row, .positions = positions_of(200, {lengths})};
  const std::vector<Values> got = run(together);
  std::int64_t first = 0;
  for (const std::int64_t length : lengths) {
    const auto part_of = [&](const Values& whole) {
      const auto begin = whole.data.begin() + first * row[2];
      return Values{{1, length, row[2]}, {begin, begin + length * row[2]}};
    };
    std::vector<Values> operands;
    for (const Values& whole : together.operands()) operands.push_back(part_of(whole));
    const AttentionCase alone{
        .op = {.heads = 2, .causal = true, .scale = 0.5}, .q = operands[0].shape, .k = operands[0].shape};
    const std::vector<Values> expected = run(alone, operands, part_of(together.dy()));
    for (std::size_t which = 0; which < expected.size(); ++which) {
      INFO("document of " << length << ", result " << which);
      // The same terms, added in the order of other tiles.
      require_close(part_of(got[which]), expected[which], 2e-6);
    }
    first += length;
  }
}

}  // namespace lockstep::ops
