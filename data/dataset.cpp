#include "data/dataset.h"

#include <cstring>
#include <vector>

namespace lockstep::data {

std::int64_t valid_targets_in(const SampleSpec& spec, std::span<const std::byte> input,
                              std::span<const std::byte> target) {
  if (spec.windows || spec.rows) {
    kernels::KeptSample sample;
    std::memcpy(&sample, input.data(), sizeof sample);
    return spec.windows && !spec.windows->per_token ? 1 : sample.targets;
  }
  if (spec.num_classes == 0 || spec.target_dtype != DType::i64) return 1;
  std::int64_t valid = 0;
  for (std::size_t at = 0; at < target.size(); at += sizeof(std::int64_t)) {
    std::int64_t label = 0;
    std::memcpy(&label, target.data() + at, sizeof label);
    valid += label != no_class ? 1 : 0;
  }
  return valid;
}

std::int64_t tokens_in(const SampleSpec& spec, std::span<const std::byte> input) {
  const std::size_t first = static_cast<std::size_t>(spec.source_length) * sizeof(std::int64_t);
  const std::size_t end = spec.packed ? input.size() / 2 : input.size();
  std::int64_t tokens = 0;
  for (std::size_t at = first; at < end; at += sizeof(std::int64_t), ++tokens) {
    std::int64_t token = 0;
    std::memcpy(&token, input.data() + at, sizeof token);
    if (token == padding_token) break;
  }
  return tokens;
}

std::int64_t Dataset::valid_targets(std::int64_t index, std::int64_t epoch) const {
  const SampleSpec& described = spec();
  if (described.target_shape.rank() == 0 || described.num_classes == 0) return 1;
  std::vector<std::byte> input(described.input_bytes());
  std::vector<std::byte> target(described.target_bytes());
  get(index, epoch, input, target);
  return valid_targets_in(described, input, target);
}

}  // namespace lockstep::data
