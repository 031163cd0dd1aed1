#include <algorithm>
#include <array>
#include <bit>

#include "kernels/base/half.h"
#include "kernels/tile_product.h"
#include "tests/unit/kernels/instruction_sets.h"

using namespace lockstep;
using namespace lockstep::kernels;

namespace lockstep::tests {
namespace {

std::vector<std::uint16_t> halves(std::int64_t count, int seed) {
  std::vector<std::uint16_t> from;
  for (const float value : numbers(static_cast<std::size_t>(count), seed))
    from.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
  return from;
}

/// Room for tiles, which are whole lines; what is not written shows.
struct alignas(64) Line {
  std::uint16_t numbers[32];
};
std::vector<Line> room(std::int64_t tiles) {
  std::vector<Line> lines(static_cast<std::size_t>(tiles * Tile::rows));
  for (Line& line : lines) {
    for (std::uint16_t& number : line.numbers) number = 0x4040;
  }
  return lines;
}

void append_widened(std::vector<float>& to, const std::vector<Line>& tiles) {
  for (const Line& line : tiles) {
    for (const std::uint16_t number : line.numbers) to.push_back(widen(BFloat16{number}));
  }
}

/// Tiles of so many numbers, in whole pairs of rows or columns.
std::int64_t tiles_of(std::int64_t count) {
  return (count + Tile::pair - 1) / Tile::pair * 2;
}

}  // namespace

TEST_CASE("all instruction sets pack tiles to the baseline's bits") {
  const std::int64_t terms = GENERATE(1, 31, 32, 64, 75);
  const std::int64_t width = GENERATE(1, 16, 33, 64);
  const std::int64_t depth = (terms + Tile::terms - 1) / Tile::terms;
  const std::int64_t next = depth * Tile::bytes;
  const std::int64_t row = 80;
  const auto matrix = halves(80 * row, 1);
  // Terms of panels are there as far as 16 reach, zeros behind the last.
  std::vector<std::uint16_t> panels(96 * 64);
  for (std::int64_t term = 0; term < terms; ++term) {
    for (std::int64_t column = 0; column < width; ++column) {
      const std::int64_t place = term / 32 * 64 * 32 + column / 2 * 64 + term % 32 * 2 + column % 2;
      panels[static_cast<std::size_t>(place)] = matrix[static_cast<std::size_t>(term * row + column)];
    }
  }
  const auto packed = [&](const auto& pack) {
    return [&](const Loops& run) {
      std::vector<Line> tiles = room(tiles_of(width) * depth);
      std::vector<float> all(static_cast<std::size_t>(width), 0.5F);
      pack(run, tiles.data(), all.data());
      append_widened(all, tiles);
      return all;
    };
  };
  check_same_bits(packed([&](const Loops& run, void* tiles, float*) {
    run(TileRows{width, terms, row, next}, matrix.data(), tiles);
  }));
  check_same_bits(packed([&](const Loops& run, void* tiles, float*) {
    run(TileTranspose{terms, width, row, next}, matrix.data(), tiles);
  }));
  check_same_bits(packed([&](const Loops& run, void* tiles, float*) {
    run(TilePairs{terms, width, row, next}, matrix.data(), tiles, nullptr);
  }));
  check_same_bits(packed([&](const Loops& run, void* tiles, float*) {
    run(TileColumns{width, terms, row, next}, matrix.data(), tiles);
  }));
  check_same_bits(packed([&](const Loops& run, void* tiles, float*) {
    run(TileWeights{terms, width, 32, 64 * 32, 64, next}, panels.data(), tiles);
  }));
  check_same_sums(packed([&](const Loops& run, void* tiles, float* sums) {
    run(TilePairs{terms, width, row, next}, matrix.data(), tiles, sums);
  }));
  // What lies in panels is the same matrix.
  for (std::size_t set = 0; set < kernels::simd::instruction_sets().size(); ++set) {
    INFO(std::string(kernels::simd::instruction_sets()[set]));
    const Loops run{set};
    std::vector<Line> of_rows = room(tiles_of(width) * depth);
    std::vector<Line> of_panels = of_rows;
    run(TilePairs{terms, width, row, next}, matrix.data(), of_rows.data(), nullptr);
    run(TileWeights{terms, width, 32, 64 * 32, 64, next}, panels.data(), of_panels.data());
    CHECK(std::memcmp(of_rows.data(), of_panels.data(), of_rows.size() * sizeof(Line)) == 0);
    // And so is the transpose of its transpose.
    std::vector<std::uint16_t> transpose(static_cast<std::size_t>(width * 80));
    for (std::int64_t i = 0; i < width * terms; ++i) {
      const std::int64_t place = i % terms * row + i / terms;
      transpose[static_cast<std::size_t>(i / terms * 80 + i % terms)] =
          matrix[static_cast<std::size_t>(place)];
    }
    run(TileColumns{width, terms, 80, next}, transpose.data(), of_panels.data());
    CHECK(std::memcmp(of_rows.data(), of_panels.data(), of_rows.size() * sizeof(Line)) == 0);
  }
}

TEST_CASE("all instruction sets multiply tiles") {
  const std::int64_t rows = GENERATE(1, 2);
  const std::int64_t columns = GENERATE(1, 3);
  const std::int64_t depth = GENERATE(1, 2);
  const bool accumulates = GENERATE(false, true);
  const bool backwards = GENERATE(false, true);  // tiles of the left factor, from the last to the first
  const std::int64_t terms = depth * Tile::terms;
  const auto a = halves(rows * Tile::pair * terms, 1);
  const auto b = halves(terms * columns * Tile::pair, 2);
  const std::int64_t c_row = columns * Tile::pair + 3;
  const auto before = numbers(static_cast<std::size_t>(rows * Tile::pair * c_row), 3);
  check_same_sums([&](const Loops& run) {
    std::vector<Line> a_tiles = room(rows * 2 * depth);
    std::vector<Line> b_tiles = room(columns * 2 * depth);
    run(TileRows{rows * Tile::pair, terms, terms, depth * Tile::bytes}, a.data(), a_tiles.data());
    run(TilePairs{terms, columns * Tile::pair, columns * Tile::pair, depth * Tile::bytes}, b.data(),
        b_tiles.data(), nullptr);
    std::vector<std::int64_t> steps;
    for (std::int64_t k = depth; backwards && k-- > 0;) steps.push_back(k * Tile::bytes);
    constexpr std::int64_t lines = Tile::bytes / static_cast<std::int64_t>(sizeof(Line));
    for (std::int64_t tile = 0; backwards && depth == 2 && tile < rows * 2; ++tile) {
      const auto first = a_tiles.begin() + tile * 2 * lines;
      std::swap_ranges(first, first + lines, first + lines);
    }
    std::vector<float> c = before;
    int wrong = 0;
    run(TileProduct{rows, columns, depth, depth * Tile::bytes, depth * Tile::bytes, c_row, Tile::pair,
                    Tile::pair * c_row, accumulates, backwards ? steps.data() : nullptr},
        a_tiles.data(), b_tiles.data(), c.data());
    for (std::int64_t i = 0; i < rows * Tile::pair; ++i) {
      for (std::int64_t j = 0; j < columns * Tile::pair; ++j) {
        double wanted = accumulates ? before[static_cast<std::size_t>(i * c_row + j)] : 0;
        for (std::int64_t k = 0; k < terms; ++k) {
          wanted += double{widen(BFloat16{a[static_cast<std::size_t>(i * terms + k)]})} *
                    double{widen(BFloat16{b[static_cast<std::size_t>(k * columns * Tile::pair + j)]})};
        }
        wrong +=
            c[static_cast<std::size_t>(i * c_row + j)] == Approx(wanted).epsilon(1e-5).margin(2e-4) ? 0 : 1;
      }
    }
    REQUIRE(wrong == 0);
    for (std::int64_t i = 0; i < rows * Tile::pair; ++i) {
      REQUIRE(c[static_cast<std::size_t>(i * c_row + c_row - 1)] ==
              before[static_cast<std::size_t>(i * c_row + c_row - 1)]);
    }
    return std::vector<float>{};
  });
}

TEST_CASE("all instruction sets multiply by right tiles that lie anywhere") {
  constexpr std::int64_t depth = 2;
  constexpr std::int64_t apart = 40;  // numbers from row to row of all columns, of which a row has 32
  const auto a = halves(Tile::pair * depth * Tile::terms, 1);
  const auto b = halves(depth * Tile::rows * 2 * apart, 2);
  check_same_sums([&](const Loops& run) {
    std::vector<Line> a_tiles = room(2 * depth);
    run(TileRows{Tile::pair, depth * Tile::terms, depth * Tile::terms, depth * Tile::bytes}, a.data(),
        a_tiles.data());
    const std::array<std::int64_t, depth> a_steps{0, Tile::bytes};
    const std::array<std::int64_t, depth> b_steps{Tile::rows * 2 * apart * 2, 0};  // the second tiles first
    std::vector<float> c(Tile::pair * Tile::pair);
    run(TileProduct{.rows = 1,
                    .columns = 1,
                    .depth = depth,
                    .a_next = depth * Tile::bytes,
                    .b_next = Tile::row_bytes,
                    .c_row = Tile::pair,
                    .c_right = 0,
                    .c_below = 0,
                    .a_steps = a_steps.data(),
                    .b_steps = b_steps.data(),
                    .b_row = 2 * apart * 2},
        a_tiles.data(), b.data(), c.data());
    int wrong = 0;
    for (std::int64_t i = 0; i < Tile::pair * Tile::pair; ++i) {
      double wanted = 0;
      for (std::int64_t k = 0; k < depth * Tile::terms; ++k) {
        const std::int64_t tile = 1 - k / Tile::terms;
        const std::int64_t row = tile * Tile::rows + k % Tile::terms / 2;
        const std::int64_t at = row * 2 * apart + i % Tile::pair * 2 + k % 2;
        wanted +=
            double{widen(BFloat16{a[static_cast<std::size_t>(i / Tile::pair * depth * Tile::terms + k)]})} *
            double{widen(BFloat16{b[static_cast<std::size_t>(at)]})};
      }
      wrong += c[static_cast<std::size_t>(i)] == Approx(wanted).epsilon(1e-5).margin(2e-4) ? 0 : 1;
    }
    REQUIRE(wrong == 0);
    return c;
  });
}

TEST_CASE("all instruction sets write sums of tiles to the baseline's bits") {
  using As = TileResult::As;
  const std::int64_t rows = GENERATE(2, 32);
  const std::int64_t columns = GENERATE(16, 32, 29);
  const As as = GENERATE(As::bf16, As::transposed_bf16, As::rows, As::pairs_of_rows);
  if (as == As::pairs_of_rows && columns % 16 != 0) return;
  const std::vector<float> from = numbers(32 * 40, 1);
  check_same_bits([&](const Loops& run) {
    std::vector<float> to(static_cast<std::size_t>(rows * 50), 1.0F);
    run(TileResult{rows, columns, 40, 50, as}, from.data(), to.data());
    for (std::int64_t i = 0; i < rows * columns && (as == As::rows || as == As::pairs_of_rows); ++i) {
      const std::int64_t row = i / columns;
      const std::int64_t column = i % columns;
      const std::int64_t place = as == As::rows ? row * 50 + column : row / 2 * 100 + 2 * column + row % 2;
      REQUIRE(to[static_cast<std::size_t>(place)] == from[static_cast<std::size_t>(row * 40 + column)]);
    }
    for (std::int64_t i = 0; i < rows * columns && as == As::transposed_bf16; ++i) {
      std::uint16_t got = 0;
      std::memcpy(&got, reinterpret_cast<const char*>(to.data()) + 2 * (i / columns * 50 + i % columns), 2);
      BFloat16 wanted;
      narrow(from[static_cast<std::size_t>(i % columns * 40 + i / columns)], wanted);
      REQUIRE(got == std::bit_cast<std::uint16_t>(wanted));
    }
    return to;
  });
}

}  // namespace lockstep::tests
