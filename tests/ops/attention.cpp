#include "kernels/attention.h"

#include <omp.h>

#include <cmath>

#include "tests/ops/attention_reference.h"
#include "tests/ops/conformance.h"
#include "tests/ops/layer_run.h"

namespace lockstep::ops {
namespace {

using kernels::Attention;

/// Columns [first, first + count) of the last dimension.
Values columns_of(const Values& x, std::int64_t first, std::int64_t count) {
  Values part{x.shape, {}};
  part.shape[2] = count;
  const std::int64_t row = x.shape[2];
  for (std::int64_t at = first; at < static_cast<std::int64_t>(x.data.size()); at += row) {
    part.data.insert(part.data.end(), x.data.begin() + at, x.data.begin() + at + count);
  }
  return part;
}

Values of_three(const std::vector<Values>& in, std::int64_t heads, bool causal) {
  return attended(in[0], in[1], in[2], {.heads = heads, .causal = causal});
}

Values of_two(const std::vector<Values>& in, std::int64_t heads) {
  const std::int64_t e = in[0].shape[2];
  return attended(in[0], columns_of(in[1], 0, e), columns_of(in[1], e, e), {.heads = heads});
}

Values of_packed(const std::vector<Values>& in, std::int64_t heads, bool causal) {
  const std::int64_t e = in[0].shape[2] / 3;
  return attended(columns_of(in[0], 0, e), columns_of(in[0], e, e), columns_of(in[0], 2 * e, e),
                  {.heads = heads, .causal = causal});
}

const std::vector<DType> every_dtype{DType::f32, DType::bf16, DType::f16};

}  // namespace

TEST_CASE("attention: of queries and other keys") {
  conform({.name = "attention",
           .layer = [](const auto& in) { return attention(in[0], in[1], in[2], {.heads = 2}); },
           .reference = [](const auto& in) { return of_three(in, 2, false); },
           .operands = {"q", "k", "v"},
           .shapes = {{{1, 1, 2}, {1, 1, 2}, {1, 1, 2}},
                      {{2, 5, 16}, {2, 7, 16}, {2, 7, 16}},
                      {{1, 61, 66}, {1, 17, 66}, {1, 17, 66}},
                      {{1, 3, 32}, {1, 131, 32}, {1, 131, 32}}},
           .tolerance = 2e-5,
           .dtypes = every_dtype});
}

TEST_CASE("attention: causal, with more and with fewer keys than queries") {
  conform(
      {.name = "attention_causal",
       .layer = [](const auto& in) { return attention(in[0], in[1], in[2], {.heads = 3, .causal = true}); },
       .reference = [](const auto& in) { return of_three(in, 3, true); },
       .operands = {"q", "k", "v"},
       .shapes = {{{2, 9, 15}, {2, 9, 15}, {2, 9, 15}},
                  {{1, 7, 24}, {1, 20, 24}, {1, 20, 24}},
                  {{1, 70, 21}, {1, 33, 21}, {1, 33, 21}}},
       .tolerance = 2e-5,
       .dtypes = every_dtype});
}

TEST_CASE("attention: of a packed q|k|v") {
  conform({.name = "attention_packed",
           .layer = [](const auto& in) { return attention(in[0], {.heads = 2, .causal = true}); },
           .reference = [](const auto& in) { return of_packed(in, 2, true); },
           .operands = {"qkv"},
           .shapes = {{{1, 1, 6}}, {{2, 13, 54}}, {{1, 50, 96}}, {{1, 150, 48}}},
           .tolerance = 2e-5,
           .dtypes = every_dtype});
}

TEST_CASE("attention: of q and a packed k|v") {
  conform({.name = "attention_key_value",
           .layer = [](const auto& in) { return attention(in[0], in[1], {.heads = 2}); },
           .reference = [](const auto& in) { return of_two(in, 2); },
           .operands = {"q", "kv"},
           .shapes = {{{2, 3, 10}, {2, 11, 20}}, {{1, 19, 48}, {1, 5, 96}}},
           .tolerance = 2e-5,
           .dtypes = every_dtype});
}

TEST_CASE("attention: heads of 1 to 256 columns") {
  for (const std::int64_t dim : {1, 3, 8, 31, 65, 96, 129, 256}) {
    const Shape shape{1, 21, 3 * dim};
    LayerRun layer([](const auto& in) { return attention(in[0], {.causal = true}); }, {shape}, DType::f32);
    const std::vector<Values> operands{kernels::test::random_values(shape, 1)};
    const auto reference = [](const auto& in) { return of_packed(in, 1, true); };
    const Values dy = kernels::test::random_values(layer.output_shape(), 2);
    const LayerResult got = layer.run(operands, dy);
    INFO("columns " << dim);
    require_close(got.y, reference(operands), 2e-5);
    require_gradient(got.gradients[0], reference, operands, 0, dy, 5e-5);
  }
}

TEST_CASE("attention: tiles beyond the first, at their borders") {
  for (const std::int64_t length : {47, 48, 49, 127, 128, 129, 145, 260}) {
    const Shape shape{1, length, 3 * 8};
    for (const bool causal : {false, true}) {
      LayerRun layer([&](const auto& in) { return attention(in[0], {.causal = causal}); }, {shape},
                     DType::f32);
      const std::vector<Values> operands{kernels::test::random_values(shape, 1)};
      const auto reference = [&](const auto& in) { return of_packed(in, 1, causal); };
      const Values dy = kernels::test::random_values(layer.output_shape(), 2);
      const LayerResult got = layer.run(operands, dy);
      INFO("length " << length << (causal ? " causal" : ""));
      require_close(got.y, reference(operands), 2e-5);
      require_gradient(got.gradients[0], reference, operands, 0, dy, 5e-5);
    }
  }
}

TEST_CASE("attention: scores that are great, and a scale of one's own") {
  const Shape shape{1, 40, 3 * 16};
  std::vector<Values> operands{kernels::test::random_values(shape, 3)};
  for (double& value : operands[0].data) value *= 4;
  LayerRun layer([](const auto& in) { return attention(in[0], {.heads = 2, .scale = 3.0}); }, {shape},
                 DType::f32);
  const Values dy = kernels::test::random_values(layer.output_shape(), 2);
  const LayerResult got = layer.run(operands, dy);
  const Values wanted = attended(columns_of(operands[0], 0, 16), columns_of(operands[0], 16, 16),
                                 columns_of(operands[0], 32, 16), {.heads = 2, .scale = 3.0});
  // Scores to 300: an ulp of them is 3e-5 of a probability.
  require_close(got.y, wanted, 5e-4);
}

TEST_CASE("attention: the same bits from any team") {
  const Shape shape{3, 100, 3 * 4 * 24};
  LayerRun layer([](const auto& in) { return attention(in[0], {.heads = 4, .causal = true}); }, {shape},
                 DType::f32);
  const std::vector<Values> operands{kernels::test::random_values(shape, 1)};
  const Values dy = kernels::test::random_values(layer.output_shape(), 2);
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const LayerResult alone = layer.run(operands, dy);
  omp_set_num_threads(5);
  const LayerResult by_five = layer.run(operands, dy);
  omp_set_num_threads(before);
  CHECK(alone.y.data == by_five.y.data);
  CHECK(alone.gradients[0].data == by_five.gradients[0].data);
}

}  // namespace lockstep::ops
