// The measure by which tests compare numbers: it must not take what is no number for equal.
#include "tests/support/largest_error.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <span>
#include <vector>

#include "tests/support/largest_difference.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

void write_weights(const std::filesystem::path& folder, const std::vector<float>& values) {
  std::filesystem::create_directory(folder);
  const SafetensorsFile::Tensor tensor{.name = "weight",
                                       .dtype = DType::f32,
                                       .shape = {static_cast<std::int64_t>(values.size())},
                                       .bytes = std::as_bytes(std::span(values))};
  write_safetensors(folder / "model.safetensors", std::span(&tensor, 1));
}

}  // namespace

TEST_CASE("a number that is none is infinitely far from every other") {
  const std::vector<float> wanted{1, 2, 3};
  CHECK(tests::largest_error(std::vector<float>{1, 2.5F, 3}, wanted) == 0.5);
  for (std::size_t at = 0; at < wanted.size(); ++at) {
    std::vector<float> got = wanted;
    got[at] = NAN;
    CHECK(tests::largest_error(got, wanted) == infinity);
    CHECK(tests::largest_error(wanted, got) == infinity);
    CHECK(tests::largest_error(got, got) == infinity);
  }
  CHECK(tests::largest_error(std::vector{infinity}, std::vector{infinity}) == 0);
  CHECK(tests::largest_error(std::vector<float>{1, 2}, wanted) == infinity);
}

TEST_CASE("weights of which one is no number are infinitely far from every other") {
  const tests::TemporaryFolder folder;
  write_weights(folder / "a", {1, 2, 3});
  write_weights(folder / "b", {1, NAN, 3});
  CHECK(tests::largest_difference(folder / "a", folder / "a") == 0);
  CHECK(tests::largest_difference(folder / "a", folder / "b") == infinity);
}
