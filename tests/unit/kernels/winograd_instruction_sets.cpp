#include <cstring>
#include <vector>

#include "kernels/cpu/simd/simd.h"
#include "kernels/winograd_conv2d.h"
#include "tests/support/catch.h"

using namespace lockstep;
using namespace lockstep::kernels;

TEST_CASE("winograd conv2d: all instruction sets compute what the baseline does") {
  constexpr std::int64_t channels = 32;
  constexpr std::int64_t tiles = 7;
  constexpr WinogradMatrices matrices{2 * 16 * (tiles + 2), 16 * (tiles + 2)};
  const Planes planes{16, 2, 63 * channels, 63 * 16, 9 * 16, 16};
  const WinogradTiles of{DType::f32, 7, 9, 2, 3, planes};
  const WinogradRange range{0, tiles - 1, 0, 0, 2, matrices};
  std::vector<float> pictures(63 * channels);
  for (std::size_t i = 0; i < pictures.size(); ++i)
    pictures[i] = static_cast<float>(i * 7919 % 2003) / 257.0F - 3.9F;
  struct Results {
    std::vector<float> exact, sums;
  };
  const auto results = [&](std::size_t set) {
    std::vector<float> in(static_cast<std::size_t>(36 * matrices.position));
    std::vector<float> gradient(in.size());
    std::vector<float> product(in.size());
    std::vector<float> out(pictures.size());
    Results all;
    simd::kernel<WinogradInput>(set)({of, false, {1, 1}}, range, pictures.data(), in.data());
    simd::kernel<WinogradInput>(set)({of, true, {0, 0}}, range, pictures.data(), gradient.data());
    simd::kernel<WinogradOutput>(set)({of, Activation::relu}, range, in.data(), pictures.data(), out.data());
    for (const auto* part : {&in, &gradient, &out})
      all.exact.insert(all.exact.end(), part->begin(), part->end());
    for (const bool transposes : {false, true}) {
      const WinogradProduct op{transposes ? channels / 2 : tiles,
                               transposes ? tiles : channels / 2,
                               1,
                               matrices.panel,
                               matrices.panel,
                               matrices.panel,
                               transposes,
                               true};
      simd::kernel<WinogradProduct>(set)(op, in.data(), gradient.data(), product.data());
      all.sums.insert(all.sums.end(), product.begin(), product.end());
    }
    return all;
  };
  const Results wanted = results(0);
  for (std::size_t set = 1; set < simd::instruction_sets().size(); ++set) {
    INFO(std::string(simd::instruction_sets()[set]));
    const Results got = results(set);
    CHECK(std::memcmp(got.exact.data(), wanted.exact.data(), got.exact.size() * sizeof(float)) == 0);
    for (std::size_t i = 0; i < got.sums.size(); ++i) {
      // Sums of 16 and 7 products up to 1e4, fused or not.
      REQUIRE(got.sums[i] == Approx(wanted.sums[i]).epsilon(1e-5).margin(0.1));
    }
  }
}
