#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "data/dataset.h"
#include "kernels/base/hash.h"

namespace lockstep::data {

std::string fingerprint_of(const Dataset& dataset) {
  constexpr std::int64_t most_samples = 64;
  const SampleSpec& spec = dataset.spec();
  const std::int64_t size = dataset.size();
  Sha256 hash;
  hash.update(fmt::format("{} samples {} {} to {} {} of {}", size, name_of(spec.input_dtype),
                          spec.input_shape.str(), name_of(spec.target_dtype), spec.target_shape.str(),
                          spec.num_classes));
  std::vector<std::byte> input(spec.input_bytes());
  std::vector<std::byte> target(spec.target_bytes());
  const std::int64_t taken = std::min(size, most_samples);
  for (std::int64_t i = 0; i < taken; ++i) {
    // The first, the last, and evenly between them.
    const std::int64_t sample =
        taken == 1 ? 0
                   : static_cast<std::int64_t>(static_cast<double>(size - 1) * static_cast<double>(i) /
                                               static_cast<double>(taken - 1));
    dataset.get(sample, 0, input, target);
    hash.update(input).update(target);
  }
  return hash.hex().substr(0, 16);
}

}  // namespace lockstep::data
