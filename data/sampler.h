#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::data {

/// Which samples one rank gets in an epoch, index for index as torch.utils.data.DistributedSampler.
struct DistributedSampler {
  std::int64_t samples = 0;
  int replicas = 1;
  int rank = 0;
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;

  /// Samples that each rank gets in an epoch; the same on all ranks.
  std::int64_t size() const;
  std::vector<std::int64_t> indices(std::int64_t epoch) const;
};

/// Every sample once over all ranks, in order, for scores that padding would falsify: rank r of R takes
/// r, r + R, ...
struct UnpaddedSampler {
  std::int64_t samples = 0;
  int replicas = 1;
  int rank = 0;

  std::int64_t size() const;
  std::vector<std::int64_t> indices() const;
};

/// torch.randperm(n) of a CPU generator seeded with `seed`.
std::vector<std::int64_t> torch_randperm(std::int64_t n, std::uint64_t seed);

}  // namespace lockstep::data
