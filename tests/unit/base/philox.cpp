#include "kernels/base/philox.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "tests/support/catch.h"

using namespace lockstep;

// The three vectors for philox4x32-10 of Random123's kat_vectors.
TEST_CASE("Philox gives the known answers") {
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t ones = 0xffffffff;
  CHECK(philox4x32({ones, ones, ones, ones}, {ones, ones}) ==
        PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("seed and stream fill key and counter") {
  const Philox random(0x299f31d0a4093822, 0x0370734413198a2e);
  CHECK(random.block(0x85a308d3243f6a88) == PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  CHECK(random.bits(4 * 0x05a308d3243f6a88 + 2) == random.block(0x05a308d3243f6a88)[2]);
}

TEST_CASE("any part of a sequence can be made alone, with the same bits") {
  const Philox random(7, 3);
  std::vector<float> uniforms(1000), normals(1000);
  random.uniforms(5, uniforms);
  random.normals(5, normals);
  for (const std::size_t first : {0, 1, 2, 3, 251, 252, 253, 256, 700}) {
    for (const std::size_t count : {0, 1, 2, 3, 5, 255, 256, 257, 300}) {
      std::vector<float> part(count);
      random.uniforms(5 + first, part);
      CHECK(std::equal(part.begin(), part.end(), uniforms.begin() + static_cast<std::ptrdiff_t>(first)));
      random.normals(5 + first, part);
      CHECK(std::equal(part.begin(), part.end(), normals.begin() + static_cast<std::ptrdiff_t>(first)));
    }
  }
  for (std::size_t i = 0; i < uniforms.size(); ++i) CHECK(uniforms[i] == random.uniform(5 + i));
}

TEST_CASE("uniforms lie in [0, 1) and fill it evenly") {
  std::vector<float> values(1 << 20);
  Philox(1, 2).uniforms(0, values);
  std::vector<int> bins(16);
  for (const float value : values) {
    REQUIRE((value >= 0.0f && value < 1.0f));
    ++bins[static_cast<std::size_t>(value * 16)];
  }
  // A bin's standard deviation is 248; six of them are never reached by chance.
  for (const int count : bins) CHECK(std::abs(count - (1 << 16)) < 6 * 248);
  CHECK(Philox::to_uniform(0xffffffff) < 1.0f);
}

TEST_CASE("normals are Box and Muller's of the same words") {
  const Philox random(11, 0);
  std::vector<float> values(4096);
  random.normals(0, values);
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const double u = 1.0 - static_cast<double>(random.uniform(i));
    const double turn = static_cast<double>(random.uniform(i + 1));
    const double radius = std::sqrt(-2.0 * std::log(u));
    // Float rounding of the angle (1e-7 of a turn) times the largest radius (5.8).
    CHECK(values[i] == Approx(radius * std::cos(2 * std::numbers::pi * turn)).margin(4e-6));
    CHECK(values[i + 1] == Approx(radius * std::sin(2 * std::numbers::pi * turn)).margin(4e-6));
  }
}

TEST_CASE("normals have the moments of the standard normal") {
  std::vector<float> values(1 << 20);
  Philox(5, 9).normals(0, values);
  double moments[5] = {};
  for (const float value : values) {
    for (int power = 1; power < 5; ++power) moments[power] += std::pow(static_cast<double>(value), power);
  }
  const double count = static_cast<double>(values.size());
  // Six standard deviations: sqrt(1, 2, 15, 96) / 1024 for powers 1 to 4.
  CHECK(moments[1] / count == Approx(0).margin(6 * 1.0 / 1024));
  CHECK(moments[2] / count == Approx(1).margin(6 * 1.42 / 1024));
  CHECK(moments[3] / count == Approx(0).margin(6 * 3.88 / 1024));
  CHECK(moments[4] / count == Approx(3).margin(6 * 9.8 / 1024));
}

TEST_CASE("below keeps its bound") {
  const Philox random(3, 4);
  std::vector<int> hits(7);
  for (std::uint64_t i = 0; i < 7000; ++i) ++hits.at(random.below(7, i));
  for (const int count : hits) CHECK(std::abs(count - 1000) < 6 * 30);
}
