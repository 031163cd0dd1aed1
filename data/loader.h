#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "data/batch.h"
#include "data/dataset.h"
#include "kernels/base/deadline.h"
#include "kernels/device.h"

namespace lockstep::data {

struct LoaderOptions {
  std::int64_t batch_size = 1;
  bool drop_last_batch = false;
  int workers = 1;          ///< 0: `next` fills the batch itself
  int prefetch_factor = 2;  ///< batches ahead per worker, at least; tiny batches are prefetched deeper
  std::int64_t first_epoch = 0;
  std::int64_t first_batch = 0;          ///< of the first epoch: a run that goes on has had those before it
  std::optional<std::int64_t> epochs{};  ///< from first_epoch on; none: for ever
  kernels::Device* device = nullptr;     ///< that batches are copied to: they lie where its copies reach best
};

/// Batches in order, across epochs without a pause, filled ahead by worker threads. Used from one thread.
class Loader {
 public:
  /// The samples of one epoch in order, e.g. [sampler](epoch) { return sampler.indices(epoch); }
  /// Called once for each epoch, from any thread, never from two at once.
  using Indices = std::function<std::vector<std::int64_t>(std::int64_t epoch)>;

  Loader(DatasetPtr dataset, Indices indices, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;

  /// The next batch; none when all epochs are done. An error of the data set or of `indices` is thrown here,
  /// in its batch's place; CommError past the deadline.
  std::optional<Batch> next(Deadline deadline);
  /// Gives a slot back. Batches go back in the order in which they came; at most two may be held during
  /// `next`.
  void release(const Batch& batch);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::data
