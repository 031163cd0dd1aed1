#include "runtime/output/predictions.h"

#include <array>
#include <cstring>

#include "kernels/base/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

/// Tensor `index` of what is written for samples 0 and 1, all of the set; empty where there is none.
std::vector<std::int64_t> index_written(const std::function<std::int64_t(std::int64_t)>& place) {
  const tests::TemporaryFolder folder;
  PredictionOutput output({}, {.place = place}, folder / "p.safetensors");
  const std::array<std::int64_t, 2> samples{0, 1};
  const std::array<float, 4> rows{1, 2, 3, 4};
  output.take({.samples = samples, .set_size = 2, .rows = rows, .columns = 2}, {});
  output.finish();
  const SafetensorsFile file(folder / "p.safetensors");
  for (const auto& tensor : file.tensors()) {
    if (tensor.name != "index") continue;
    std::vector<std::int64_t> index(tensor.bytes.size() / sizeof(std::int64_t));
    std::memcpy(index.data(), tensor.bytes.data(), tensor.bytes.size());
    return index;
  }
  return {};
}

TEST_CASE("a file of predictions tells which lines they are of where some were left out") {
  CHECK(index_written(nullptr).empty());
  CHECK(index_written([](std::int64_t sample) { return sample; }).empty());
  CHECK(index_written([](std::int64_t sample) { return 2 * sample; }) == std::vector<std::int64_t>{0, 2});
}

}  // namespace
}  // namespace lockstep::runtime
