#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <omp.h>

#include "kernels/cpu/simd/simd.h"
#include "tests/support/catch.h"
#include "tests/unit/kernels/simd_math/probe.h"

namespace lockstep::kernels::test {
namespace {

constexpr float infinite = std::numeric_limits<float>::infinity();

/// What math.h states of a function: its greatest error between two arguments.
struct Function {
  const char* name;
  MathLoop* MathLoops::*loop;
  double (*exact)(double);
  float first, last;
  double ulp;
};

const Function functions[] = {
    {"exp_negative", &MathLoops::exp_negative, std::exp, -87, 0, 1},
    {"exp_or_zero", &MathLoops::exp_or_zero, std::exp, -87, 88, 1},
    {"exp", &MathLoops::exp, std::exp, -87, 88.72283F, 1},
    {"tanh", &MathLoops::tanh, std::tanh, -infinite, infinite, 1.3},
    {"sigmoid", &MathLoops::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -87, infinite, 2.5},
    {"erf", &MathLoops::erf, std::erf, -infinite, infinite, 1.2},
    {"rsqrt", &MathLoops::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0x1p-149F, infinite, 1.5},
};

/// Every f32 has its place in a line: floats in order, -0 and +0 both at 0.
std::int64_t place(float x) {
  const auto bits = static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU);
  return std::signbit(x) ? -bits : bits;
}
float at_place(std::int64_t place) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(std::abs(place)) | (place < 0 ? 1U << 31 : 0U));
}

/// In units of the last place of the exact result.
double error(float got, double exact) {
  if (static_cast<double>(got) == exact) return 0;
  const int exponent = std::max(std::ilogb(exact), -126);
  return std::abs(static_cast<double>(got) - exact) / std::ldexp(1.0, exponent - 23);
}

struct Worst {
  double ulp = 0;
  float x = 0;
};

/// By instruction set, over every `stride`-th f32 from the first argument to the last.
std::vector<Worst> worst_errors(const Function& function, std::int64_t stride) {
  constexpr std::int64_t batch = 4096;
  const std::size_t sets = simd::instruction_sets().size();
  const std::int64_t first = place(function.first);
  const std::int64_t batches = (place(function.last) - first) / (batch * stride) + 1;
  std::vector<Worst> worst(sets);
#pragma omp parallel for schedule(dynamic, 16)
  for (std::int64_t at = 0; at < batches; ++at) {
    std::vector<float> x(batch);
    std::vector<float> y(batch);
    std::vector<double> exact(batch);
    for (std::int64_t i = 0; i < batch; ++i) {
      x[i] = at_place(std::min(first + (at * batch + i) * stride, place(function.last)));
      exact[i] = function.exact(static_cast<double>(x[i]));
    }
    for (std::size_t set = 0; set < sets; ++set) {
      (math_loops(set).*function.loop)(x.data(), y.data(), batch);
      Worst here;
      for (std::int64_t i = 0; i < batch; ++i) {
        const double ulp = error(y[i], exact[i]);
        if (!(ulp <= here.ulp)) here = {ulp, x[i]};
      }
#pragma omp critical
      if (!(here.ulp <= worst[set].ulp)) worst[set] = here;
    }
  }
  return worst;
}

std::vector<float> values(MathLoop* loop, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  loop(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  return y;
}

double nanoseconds(MathLoop* loop) {
  const std::vector<float> x(4096, -0.7F);
  std::vector<float> y(x.size());
  double best = infinite;
  for (int run = 0; run < 200; ++run) {
    const auto start = std::chrono::steady_clock::now();
    loop(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / static_cast<double>(x.size()));
  }
  return best;
}

TEST_CASE("simd math: errors are what math.h states") {
  for (const Function& function : functions) {
    const std::vector<Worst> worst = worst_errors(function, 256);
    for (std::size_t set = 0; set < worst.size(); ++set) {
      INFO(function.name << " of " << worst[set].x << " with " << simd::instruction_sets()[set]);
      CHECK(worst[set].ulp <= function.ulp);
    }
  }
}

TEST_CASE("simd math: special values") {
  const float denormal = 0x1p-149F;
  const float greatest_denormal = 0x1.fffffcp-127F;
  const float smallest_normal = 0x1p-126F;
  const float greatest = std::numeric_limits<float>::max();
  for (std::size_t set = 0; set < simd::instruction_sets().size(); ++set) {
    INFO(simd::instruction_sets()[set]);
    const MathLoops& loops = math_loops(set);
    const std::vector<float> small{0, denormal, greatest_denormal, smallest_normal};
    const std::vector<float> one(small.size(), 1);
    CHECK(values(loops.exp, small) == one);
    CHECK(values(loops.exp_negative, {0, -denormal, -greatest_denormal, -smallest_normal}) == one);
    CHECK(values(loops.exp, {-infinite, -greatest, -87.5F, 88.75F, greatest, infinite}) ==
          std::vector<float>{0, 0, 0, infinite, infinite, infinite});
    const std::vector<float> lowest = values(loops.exp_negative, {-87, -88, -greatest, -infinite});
    CHECK(lowest == std::vector<float>(4, lowest[0]));
    CHECK(values(loops.exp_or_zero, {-infinite, -greatest, -87.5F, 0}) == std::vector<float>{0, 0, 0, 1});
    CHECK(values(loops.tanh, small) == small);
    CHECK(values(loops.tanh, {-infinite, -greatest, greatest, infinite}) == std::vector<float>{-1, -1, 1, 1});
    CHECK(values(loops.erf, {-infinite, -greatest, greatest, infinite}) == std::vector<float>{-1, -1, 1, 1});
    CHECK(values(loops.sigmoid, {-infinite, -greatest, -89, 0, greatest, infinite}) ==
          std::vector<float>{0, 0, 0, 0.5F, 1, 1});
    CHECK(values(loops.rsqrt, {0, 4, infinite}) == std::vector<float>{infinite, 0.5F, 0});
    CHECK(std::isnan(values(loops.rsqrt, {-1})[0]));
    for (MathLoop* odd : {loops.tanh, loops.erf}) CHECK(std::signbit(values(odd, {-0.0F})[0]));
    for (MathLoop* loop : {loops.exp_or_zero, loops.exp, loops.tanh, loops.sigmoid, loops.erf, loops.rsqrt}) {
      CHECK(std::isnan(values(loop, {std::nanf("")})[0]));
    }
  }
}

// Not run unless asked for (test_unit_simd_math [.measure]): every 64th f32, and what an element takes.
TEST_CASE("simd math: figures", "[.measure]") {
  for (const Function& function : functions) {
    const std::vector<Worst> worst = worst_errors(function, 64);
    for (std::size_t set = 0; set < worst.size(); ++set) {
      const MathLoops& loops = math_loops(set);
      fmt::print("{:<12} {:<8} {:.3f} ulp at {:a}, {:.2f} ns, a copy {:.2f} ns\n", function.name,
                 simd::instruction_sets()[set], worst[set].ulp, worst[set].x,
                 nanoseconds(loops.*function.loop), nanoseconds(loops.copy));
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels::test
