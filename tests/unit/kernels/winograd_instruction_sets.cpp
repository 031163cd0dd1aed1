#include <cstring>
#include <vector>

#include "kernels/cpu/simd/simd.h"
#include "kernels/winograd_conv2d.h"
#include "tests/support/catch.h"

using namespace lockstep;
using namespace lockstep::kernels;

namespace {

constexpr std::int64_t channels = 32;
constexpr std::int64_t panel = WinogradTiles::panel;

std::vector<float> numbers(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i * 7919 % 2003) / 257.0F - 3.9F;
  return values;
}

struct Results {
  std::vector<float> exact, sums;
};

/// Of pictures of 7x9 pixels and filters of 32 inputs and outputs.
Results results(std::size_t set, DType factors) {
  const std::int64_t extent = winograd_extent(factors);
  const std::int64_t elements = (extent + 2) * (extent + 2);
  const WinogradTiles of{DType::f32,
                         factors,
                         7,
                         9,
                         (7 + extent - 1) / extent,
                         (9 + extent - 1) / extent,
                         {16, 2, 63 * channels, 63 * 16, 9 * 16, 16}};
  const std::int64_t tiles = of.rows * of.columns - 1;
  const std::int64_t per_word = factors == DType::bf16 ? 2 : 1;
  const std::int64_t tile_words = (tiles + per_word - 1) / per_word;
  const WinogradMatrices matrices{2 * panel * channels, panel * channels};
  const WinogradRange range{0, tiles, 0, 0, 2, matrices};
  const std::vector<float> pictures = numbers(63 * channels);
  const std::vector<float> w = numbers(9 * channels * channels);
  std::vector<std::int64_t> outputs(channels);
  std::vector<std::int64_t> inputs(channels);
  for (std::size_t i = 0; i < channels; ++i) {
    outputs[i] = static_cast<std::int64_t>(i) * 9 * channels;
    inputs[i] = static_cast<std::int64_t>(i) * 9;
  }
  const WinogradFilters filters{DType::f32, outputs.data(), inputs.data(), 3, 1, 0, channels, 0, channels};

  Results all;
  const auto transforms = [&] {
    return std::vector<float>(static_cast<std::size_t>(elements * matrices.position));
  };
  const auto keep = [](std::vector<float>& in, const std::vector<float>& values) {
    in.insert(in.end(), values.begin(), values.end());
  };
  std::vector<float> rows = transforms();
  std::vector<float> columns = transforms();
  std::vector<float> gradient = transforms();
  std::vector<float> weights = transforms();
  simd::kernel<WinogradInput>(set)({of, false, false, {1, 1}}, range, pictures.data(), rows.data());
  simd::kernel<WinogradInput>(set)({of, false, true, {1, 1}}, range, pictures.data(), columns.data());
  simd::kernel<WinogradInput>(set)({of, true, true, {0, 0}}, range, pictures.data(), gradient.data());
  simd::kernel<WinogradWeights>(set)({factors, matrices}, filters, w.data(), weights.data());
  for (const auto* part : {&rows, &columns, &gradient, &weights}) keep(all.exact, *part);

  const std::vector<float> products = numbers(elements * matrices.position);
  std::vector<float> out(pictures.size());
  std::vector<float> dw(w.size());
  simd::kernel<WinogradOutput>(set)({of, Activation::relu}, range, products.data(), pictures.data(),
                                    out.data());
  simd::kernel<WinogradWeightGradients>(set)({factors, matrices}, filters, products.data(), dw.data());
  for (const auto* part : {&out, &dw}) keep(all.exact, *part);

  for (const bool transposes : {false, true}) {
    std::vector<float> product = transforms();
    const WinogradProduct op{.factors = factors,
                             .rows = transposes ? channels : tiles,
                             .depth = transposes ? tile_words : channels / per_word,
                             .panels = 1,
                             .a_panel = matrices.panel,
                             .b_panel = matrices.panel,
                             .c_panel = matrices.panel,
                             .transposes = transposes,
                             .accumulates = true};
    simd::kernel<WinogradProduct>(set)(op, transposes ? columns.data() : rows.data(),
                                       transposes ? gradient.data() : weights.data(), product.data());
    keep(all.sums, product);
  }
  return all;
}

}  // namespace

TEST_CASE("winograd conv2d: all instruction sets compute what the baseline does") {
  for (const DType factors : {DType::f32, DType::bf16}) {
    const Results wanted = results(0, factors);
    for (std::size_t set = 1; set < simd::instruction_sets().size(); ++set) {
      INFO(std::string(simd::instruction_sets()[set]) << " " << name_of(factors));
      const Results got = results(set, factors);
      CHECK(std::memcmp(got.exact.data(), wanted.exact.data(), got.exact.size() * sizeof(float)) == 0);
      for (std::size_t i = 0; i < got.sums.size(); ++i) {
        // Sums of 32 and 19 products up to 1e4, fused or not.
        REQUIRE(got.sums[i] == Approx(wanted.sums[i]).epsilon(1e-5).margin(0.1));
      }
    }
  }
}
