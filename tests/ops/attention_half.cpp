// Attention of half types against that of f32: on GPUs from 8.0 on other kernels compute it, on tensor cores,
// for heads of 16 to 128 columns that 8 divides.
#include <algorithm>
#include <cmath>

#include "tests/ops/attention_case.h"

namespace lockstep::ops {
namespace {

/// y and gradients in `dtype` and in f32, of operands that are exact in both. Probabilities, gradients of
/// scores and results are rounded to `dtype` on the way, by half an ulp of the greatest each.
void check_half(AttentionCase c) {
  const std::vector<Values> wanted = run(c);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    if (dtype == DType::f16 && device().is_cpu()) continue;
    c.dtype = dtype;
    const std::vector<Values> got = run(c);
    const double ulp = std::ldexp(1.0, dtype == DType::bf16 ? -8 : -11);
    for (std::size_t which = 0; which < got.size(); ++which) {
      INFO(name_of(dtype) << ", result " << which << " of " << c.q.str() << " and " << c.k.str());
      double greatest = 0;
      for (const double value : wanted[which].data) greatest = std::max(greatest, std::abs(value));
      require_close(got[which], wanted[which], 2 * ulp * std::max(greatest, 0.25));
    }
    const std::vector<Values> again = run(c);
    for (std::size_t which = 0; which < got.size(); ++which) CHECK(got[which].data == again[which].data);
  }
}

double scale_of(std::int64_t dim) {
  return 1 / std::sqrt(static_cast<double>(dim));
}

}  // namespace

TEST_CASE("attention in half types: heads of 8 to 136 columns") {
  for (const std::int64_t dim : {8, 12, 16, 24, 32, 40, 64, 80, 128, 136}) {
    const Attention op{.heads = 2, .causal = true, .scale = scale_of(dim)};
    check_half({.op = op, .q = {1, 70, 2 * dim}, .k = {1, 70, 2 * dim}});
  }
}

TEST_CASE("attention in half types: lengths at the borders of tiles") {
  const std::int64_t dim = GENERATE(16, 64, 128);
  for (const std::int64_t length : {1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 200}) {
    for (const bool causal : {false, true}) {
      const Attention op{.heads = 1, .causal = causal, .scale = scale_of(dim)};
      check_half({.op = op, .q = {2, length, dim}, .k = {2, length, dim}});
    }
  }
}

TEST_CASE("attention in half types: more and fewer keys than queries") {
  const std::int64_t dim = GENERATE(16, 64, 128);
  for (const bool causal : {false, true}) {
    const Attention op{.heads = 2, .causal = causal, .scale = scale_of(dim)};
    check_half({.op = op, .q = {1, 7, 2 * dim}, .k = {1, 133, 2 * dim}});
    check_half({.op = op, .q = {1, 133, 2 * dim}, .k = {1, 7, 2 * dim}});
  }
}

TEST_CASE("attention in half types: dropout, whatever the head and the order") {
  for (const std::int64_t dim : {24, 64, 128}) {
    for (const bool causal : {false, true}) {
      const Attention op{.heads = 2, .causal = causal, .scale = scale_of(dim), .p = 0.2, .stream = 12};
      check_half({.op = op, .q = {2, 70, 2 * dim}, .k = {2, 90, 2 * dim}});
    }
  }
}

TEST_CASE("attention in half types: equal scores weigh the same in every tile of keys") {
  const DType dtype = GENERATE(DType::bf16, DType::f16);
  if (dtype == DType::f16 && device().is_cpu()) return;
  constexpr std::int64_t keys = 4096;
  // A score of 160 is 16 * 10; values are 1 in the first tile, and 0 in the others.
  AttentionCase c{.op = {.heads = 1, .scale = 1}, .q = {1, 16, 16}, .k = {1, keys, 16}, .dtype = dtype};
  std::vector<Values> operands = c.operands();
  std::fill(operands[0].data.begin(), operands[0].data.end(), 1.0);
  std::fill(operands[1].data.begin(), operands[1].data.end(), 10.0 + 0x1p-4);
  std::fill(operands[2].data.begin(), operands[2].data.end(), 0.0);
  std::fill_n(operands[2].data.begin(), 32 * 16, 1.0);
  const std::vector<Values> got = run(c, operands, c.dy());
  const double unit = dtype == DType::bf16 ? 0x1p-9 : 0x1p-12;
  for (const double share : got[0].data) CHECK(std::abs(share * keys / 32 - 1) <= 1.01 * unit);
}

TEST_CASE("attention in half types: hidden keys, queries that see none, dropout and documents") {
  check_half({.op = {.heads = 2, .masked = true, .scale = 0.25},
              .q = {3, 40, 32},
              .k = {3, 90, 32},
              .tokens = padded_tokens(3, 90, {90, 31, 0})});
  check_half({.op = {.heads = 1, .causal = true, .masked = true, .scale = 0.25, .p = 0.2, .stream = 12},
              .q = {2, 150, 24},
              .k = {2, 150, 24},
              .tokens = padded_tokens(2, 150, {133, 64})});
  std::vector<std::int64_t> positions;
  for (const std::int64_t document : {70, 1, 47, 60}) {
    for (std::int64_t at = 0; at < document; ++at) positions.push_back(at);
  }
  positions.resize(200, -1);
  for (const std::int64_t dim : {16, 64, 128}) {
    check_half({.op = {.heads = 1, .causal = true, .documents = true, .scale = scale_of(dim)},
                .q = {1, 200, dim},
                .k = {1, 200, dim},
                .positions = positions});
  }
}

TEST_CASE("attention in half types: a NaN stays one") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    if (dtype == DType::f16 && device().is_cpu()) continue;
    const AttentionCase c{.op = {.heads = 1, .causal = true, .scale = 0.25},
                          .q = {1, 40, 16},
                          .k = {1, 40, 16},
                          .dtype = dtype};
    std::vector<Values> operands = c.operands();
    operands[1].data[20 * 16] = NAN;  // key 20, which later queries see
    const std::vector<Values> got = run(c, operands, c.dy());
    CHECK(std::isfinite(got[0].data[19 * 16]));
    for (std::size_t query = 20; query < 40; ++query) CHECK(std::isnan(got[0].data[query * 16]));
  }
}

// A tile that is larger than its head or its sample ends in zeros: what lies there in memory would have
// weights of zero, which hide no NaN.
TEST_CASE("attention in half types: what is no number in one head shows in no other, nor in another sample") {
  const std::int64_t dim = GENERATE(16, 24, 40, 72);
  const Shape shape{2, 40, 2 * dim};
  const bool causal = GENERATE(false, true);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    if (dtype == DType::f16 && device().is_cpu()) continue;
    const AttentionCase c{
        .op = {.heads = 2, .causal = causal, .scale = scale_of(dim)}, .q = shape, .k = shape, .dtype = dtype};
    const std::vector<Values> clean = run(c);
    for (std::int64_t broken = 0; broken < 4; ++broken) {
      const auto is_broken = [&](std::size_t i) {
        const auto at = static_cast<std::int64_t>(i);
        return at / (shape[1] * shape[2]) * 2 + at / dim % 2 == broken;
      };
      const auto with_nan = [&](Values values) {
        for (std::size_t i = 0; i < values.data.size(); ++i) {
          if (is_broken(i)) values.data[i] = NAN;
        }
        return values;
      };
      std::vector<Values> operands = c.operands();
      for (Values& values : operands) values = with_nan(values);
      const std::vector<Values> got = run(c, operands, with_nan(c.dy()));
      for (std::size_t which = 0; which < got.size(); ++which) {
        INFO(name_of(dtype) << ", " << dim << " columns, head " << broken << ", result " << which);
        bool right = true;
        for (std::size_t i = 0; i < got[which].data.size(); ++i) {
          const double value = got[which].data[i];
          right = right && (is_broken(i) ? std::isnan(value) : value == clean[which].data[i]);
        }
        CHECK(right);
      }
    }
  }
}

}  // namespace lockstep::ops
