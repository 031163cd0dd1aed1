#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep::data {

/// The samples of one rank in an epoch, in order. The last `padding` of them, samples that come a second
/// time, only fill a batch: they count for nothing in losses, gradients and scores, yet are real for batch
/// norm.
struct EpochSamples {
  EpochSamples(std::vector<std::int64_t> samples = {}, std::int64_t fillers = 0)
      : indices(std::move(samples)), padding(fillers) {}

  std::vector<std::int64_t> indices;
  std::int64_t padding = 0;
};

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

  /// What an epoch has left when its first `done` samples are done, on however many ranks, dealt to these
  /// replicas: every sample once, equally many for each rank, of which the last may be padding. With
  /// `drop_last` there is no padding, and up to replicas - 1 samples are left out.
  EpochSamples rest(std::int64_t epoch, std::int64_t done) const;
  std::int64_t rest_size(std::int64_t done) const;

 private:
  /// Of all samples: the ranks take turns, so a step of all of them takes the next samples of this order.
  std::vector<std::int64_t> order(std::int64_t epoch) const;
  std::int64_t share_of(std::int64_t count) const;
};

/// Of `count` samples that stand for a set of `set_size`, in order, that at `place`: one of each `count`-th
/// part of the set, drawn, but always the same one. Sets are often ordered by class, or take classes in
/// turns.
std::int64_t chosen_sample(std::int64_t place, std::int64_t count, std::int64_t set_size);

/// The chosen samples, each once over all ranks and in order, for scores that padding would falsify: rank r
/// of R takes those at r, r + R, ...
struct UnpaddedSampler {
  std::int64_t samples = 0;
  int replicas = 1;
  int rank = 0;
  std::int64_t set_size = samples;  ///< of which `samples` are chosen

  std::int64_t size() const;
  std::vector<std::int64_t> indices() const;
};

/// torch.randperm(n) of a CPU generator seeded with `seed`.
std::vector<std::int64_t> torch_randperm(std::int64_t n, std::uint64_t seed);

}  // namespace lockstep::data
