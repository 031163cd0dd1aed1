#pragma once

#include <cstdint>

#include "data/prefetch.h"

namespace lockstep::data {

/// Writes the samples of a batch into a slot of the ring and counts what counts of them. Used by all workers
/// at once.
class BatchFiller {
 public:
  BatchFiller(DatasetPtr dataset, const LoaderOptions& options);

  /// Batch number `batch` of `order`. Throws what the data set throws.
  void fill(const EpochOrder& order, std::int64_t batch, BatchRing::Slot& slot) const;

 private:
  std::int64_t length_of(const EpochOrder& order, std::int64_t batch) const;
  std::int64_t targets_behind(const EpochOrder& order, std::int64_t batch) const;

  const DatasetPtr dataset_;
  const std::int64_t batch_size_;
  const std::int64_t batches_per_step_;
  const std::vector<std::int64_t> lengths_;
};

}  // namespace lockstep::data
