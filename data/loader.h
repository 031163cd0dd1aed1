#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/sampler.h"
#include "kernels/base/deadline.h"
#include "kernels/device.h"

namespace lockstep::data {

/// Which samples a batch holds.
struct BatchInfo {
  std::int64_t epoch = 0;
  std::int64_t index = 0;    ///< of the batch in its epoch
  std::int64_t samples = 0;  ///< rows filled; the rest of what holds the batch is stale
  std::int64_t padding = 0;  ///< of these rows the last, which count for nothing
  std::int64_t targets =
      0;  ///< of the other rows: those that count, which are the samples unless tokens have classes
  /// Of a step's first batch: the same of all batches of the step.
  std::int64_t step_targets = 0;
  std::int64_t length = 0;  ///< to which its rows are cut; 0: they are whole
  bool last_of_epoch = false;

  std::int64_t counted() const { return samples - padding; }
};

/// A batch in a slot of the loader's ring; valid until released.
struct Batch {
  BatchInfo info;
  /// `info.samples` rows. Of tokens a whole batch: the rows behind the samples repeat the first.
  std::span<const std::byte> input;
  std::span<const std::byte> target;
  std::span<const std::byte> states;  ///< empty where samples have none
  std::size_t slot = 0;
};

struct LoaderOptions {
  std::int64_t batch_size = 1;
  std::int64_t batches_per_step = 1;  ///< from the first of an epoch on; its last step may have fewer
  /// Rows of a batch are cut to the least of these that holds the longest, in a step that is smaller than
  /// others to the greatest; rising (`batch_lengths`). Empty: rows are whole.
  std::vector<std::int64_t> lengths{};
  int workers = 1;          ///< 0: `next` fills the batch itself
  int prefetch_factor = 2;  ///< batches ahead per worker, at least; tiny batches are prefetched deeper
  std::int64_t first_epoch = 0;
  std::int64_t first_batch = 0;          ///< of the first epoch: a resumed run has done those before it
  std::optional<std::int64_t> epochs{};  ///< from first_epoch on; none: for ever
  kernels::Device* device = nullptr;     ///< whose pinned host memory holds the batches; null: none
  std::string source{};                  ///< of the samples, for reports: "mnist (/data/mnist)"
};

/// How many batches a loader with these options has memory for. `batch_bytes`: of all parts of one.
std::size_t loader_slots(const LoaderOptions& options, std::size_t batch_bytes);

/// Batches in order, across epochs without a pause, filled ahead by worker threads. Used from one thread.
class Loader {
 public:
  /// The samples of one epoch in order, e.g. [sampler](epoch) { return sampler.indices(epoch); }
  /// Called once for each epoch, from any thread, never from two at once.
  using Indices = std::function<EpochSamples(std::int64_t epoch)>;

  Loader(DatasetPtr dataset, Indices indices, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;

  /// The next batch; none when all epochs are done. An error of the data set or of `indices` is thrown here,
  /// in its batch's place; DeviceError past the deadline. A worker that hangs keeps the destructor waiting.
  std::optional<Batch> next(Deadline deadline);
  /// What `next` gives or waits for: "batch 14 of mnist (/data/mnist), sample 4711 (worker 1)". From any
  /// thread.
  std::string describe_next() const;
  /// Gives a slot back. Batches go back in the order in which they came; at most two may be held during
  /// `next`.
  void release(const Batch& batch);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::data
