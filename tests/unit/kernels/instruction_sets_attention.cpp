// Attention's tiles: sums, whose order follows the vector's width.
#include <algorithm>

#include "kernels/attention.h"
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

}  // namespace lockstep::tests
