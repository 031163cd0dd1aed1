// Attention's tiles: sums, whose order follows the vector's width.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/base/half.h"
#include "kernels/tile_attention.h"
#include "tests/unit/kernels/instruction_sets.h"

namespace lockstep::tests {
namespace {

using namespace kernels;

/// y and every gradient of one head, causal, with two tiles of keys, masked keys, documents and dropout.
std::vector<float> attended(const Loops& run, std::int64_t length, std::int64_t dim) {
  const AttentionSize size{
      .samples = 1, .heads = 1, .queries = length, .keys = length, .dim = dim, .parts = {}};
  const auto elements = static_cast<std::size_t>(length * dim);
  const std::vector<float> q = numbers(elements, 1);
  const std::vector<float> k = numbers(elements, 2);
  const std::vector<float> v = numbers(elements, 3);
  const std::vector<float> dy = numbers(elements, 4);
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(length), 0);
  for (std::size_t at = 5; at < tokens.size(); at += 7) tokens[at] = -1;
  std::vector<std::int64_t> positions(tokens.size());
  for (std::size_t at = 0; at < positions.size(); ++at) positions[at] = static_cast<std::int64_t>(at % 110);
  const Attention op{.causal = true, .masked = true, .documents = true, .scale = 0.05, .p = 0.1, .stream = 3};
  const AttentionHead head{.dtype = DType::f32,
                           .queries = length,
                           .keys = length,
                           .dim = dim,
                           .first_query = 0,
                           .end_query = length,
                           .q_row = dim,
                           .k_row = dim,
                           .v_row = dim,
                           .y_row = dim,
                           .q = q.data(),
                           .k = k.data(),
                           .v = v.data(),
                           .tokens = tokens.data(),
                           .positions = positions.data(),
                           .random = {7, 8}};
  std::vector<float> y(elements);
  std::vector<float> logsumexp(tokens.size());
  std::vector<float> scratch(static_cast<std::size_t>(
      std::max(AttentionTile::forward_scratch(size), AttentionTile::backward_scratch(size))));
  run(op, head, y.data(), logsumexp.data(), scratch.data());
  std::vector<std::vector<float>> gradients(3, std::vector<float>(elements));
  const AttentionGradients at{.y = y.data(),
                              .dy = dy.data(),
                              .logsumexp = logsumexp.data(),
                              .dq = gradients[0].data(),
                              .dk = gradients[1].data(),
                              .dv = gradients[2].data()};
  run(AttentionBackward{op}, head, at, scratch.data());
  std::vector<float> all = y;
  append(all, logsumexp);
  for (const std::vector<float>& gradient : gradients) append(all, gradient);
  return all;
}

}  // namespace

TEST_CASE("SIMD kernels: attention is the same for every instruction set, up to the order of sums") {
  for (const std::int64_t dim : {1, 16, 37, 64}) {
    check_same_sums([&](const Loops& run) { return attended(run, 29, dim); });
    check_same_sums([&](const Loops& run) { return attended(run, 150, dim); });
  }
}

namespace {

std::vector<std::uint16_t> halves(std::size_t n, int seed) {
  std::vector<std::uint16_t> from;
  for (const float value : numbers(n, seed))
    from.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value / 4) >> 16));
  return from;
}

/// Gradients of bf16: dq, dk and dv of one head, by `Backward`, rows being five numbers longer than they are.
template <class Backward>
std::vector<float> gradients_of(const Loops& run, const Attention& op, const AttentionSize& size) {
  const std::int64_t row = size.dim + 5;
  const auto of_queries = static_cast<std::size_t>(size.queries * row);
  const auto of_keys = static_cast<std::size_t>(size.keys * row);
  const auto q = halves(of_queries, 1);
  const auto k = halves(of_keys, 2);
  const auto v = halves(of_keys, 3);
  const auto dy = halves(of_queries, 4);
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(size.keys), 0);
  for (std::size_t at = 5; at < tokens.size(); at += 7) tokens[at] = -1;
  const AttentionHead head{.dtype = DType::bf16,
                           .queries = size.queries,
                           .keys = size.keys,
                           .dim = size.dim,
                           .first_query = 0,
                           .end_query = size.queries,
                           .q_row = row,
                           .k_row = row,
                           .v_row = row,
                           .y_row = row,
                           .q = q.data(),
                           .k = k.data(),
                           .v = v.data(),
                           .tokens = op.masked ? tokens.data() : nullptr,
                           .positions = nullptr,
                           .random = {7, 8}};
  std::vector<std::uint16_t> y(of_queries);
  std::vector<float> logsumexp(static_cast<std::size_t>(size.queries));
  struct alignas(64) Line {
    float numbers[16];
  };
  std::vector<Line> scratch(static_cast<std::size_t>(
      std::max({AttentionTile::forward_scratch(size), AttentionTile::backward_scratch(size),
                TileAttentionBackward::scratch(size)}) /
          16 +
      1));
  float* const floats = scratch.data()->numbers;
  const Loops baseline{0};  // forward is of what has no kernels by tiles
  baseline(op, head, static_cast<void*>(y.data()), logsumexp.data(), floats);
  constexpr std::uint16_t untouched = 0x4040;
  std::vector<std::uint16_t> dq(of_queries, untouched), dk(of_keys, untouched), dv(of_keys, untouched);
  const AttentionGradients at{.y = y.data(),
                              .dy = dy.data(),
                              .logsumexp = logsumexp.data(),
                              .dq = dq.data(),
                              .dk = dk.data(),
                              .dv = dv.data()};
  run(Backward{op}, head, at, floats);
  std::vector<float> all;
  for (const auto* const gradient : {&dq, &dk, &dv}) {
    for (std::size_t i = 0; i < gradient->size(); ++i) {
      if (static_cast<std::int64_t>(i) % row >= size.dim) REQUIRE((*gradient)[i] == untouched);
      all.push_back(widen(BFloat16{(*gradient)[i]}));
    }
  }
  return all;
}

}  // namespace

TEST_CASE("SIMD kernels: gradients of attention by tiles are those of f32, but for bf16's rounding") {
  for (const auto& [queries, keys, dim] :
       {std::tuple{1, 1, 1}, {64, 64, 32}, {70, 70, 40}, {33, 150, 16}, {150, 33, 64}, {200, 200, 24}}) {
    for (const bool causal : {false, true}) {
      const Attention op{.causal = causal, .masked = queries == 70, .scale = 0.25};
      const AttentionSize size{
          .samples = 1, .heads = 1, .queries = queries, .keys = keys, .dim = dim, .parts = {}};
      const std::vector<float> wanted = gradients_of<AttentionBackward>(Loops{0}, op, size);
      float greatest = 0;
      for (const float value : wanted) greatest = std::max(greatest, value == 3.0F ? 0 : std::fabs(value));
      const auto sets = kernels::simd::instruction_sets();
      for (std::size_t set = 0; set < sets.size(); ++set) {
        INFO(std::string(sets[set]) << ": " << queries << " queries, " << keys << " keys, causal " << causal);
        const std::vector<float> got = gradients_of<TileAttentionBackward>(Loops{set}, op, size);
        float error = 0;
        for (std::size_t i = 0; i < got.size(); ++i) error = std::max(error, std::fabs(got[i] - wanted[i]));
        // P and dS are rounded, by half a unit of bf16 each, and so is the result, here and there.
        CHECK(error <= 2 * 0x1p-8F * greatest);
        CHECK(std::none_of(got.begin(), got.end(), [](float value) { return std::isnan(value); }));
      }
    }
  }
}

}  // namespace lockstep::tests
