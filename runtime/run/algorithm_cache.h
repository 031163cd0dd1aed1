#pragma once

#include <filesystem>
#include <string>

#include "kernels/base/activity.h"
#include "kernels/base/unique_fd.h"
#include "kernels/device.h"
#include "kernels/matmul.h"
#include "runtime/plan/algorithms.h"

namespace lockstep::runtime {

/// What `--benchmark` measured in earlier runs: a file of JSON with the ops and their fastest algorithms for
/// each machine, the one measured last first. Several runs may share it: it is replaced as a whole, under
/// the lock of a file beside it, so that what runs add at the same moment is all kept. A file that is
/// damaged, or that others may write, is named and not used.
class AlgorithmCache {
 public:
  /// `file`: empty if there is nowhere to keep it. `machine`: all that the measurements depend on beside the
  /// ops.
  AlgorithmCache(std::filesystem::path file, std::string machine)
      : file_(std::move(file)), machine_(std::move(machine)) {}

  KnownAlgorithms load() const;
  /// Keeps `known` beside what the file has of other machines; a warning where it cannot be written.
  void store(const KnownAlgorithms& known, Activity* activity = nullptr) const;

  const std::filesystem::path& file() const { return file_; }

 private:
  UniqueFd lock(Activity* activity) const;
  std::string merged(const KnownAlgorithms& known) const;

  const std::filesystem::path file_;
  const std::string machine_;
};

/// `$XDG_CACHE_HOME/lockstep/algorithms`, for measurements by this build on this device.
AlgorithmCache algorithm_cache_for(const kernels::Device& device, kernels::MatmulPrecision products,
                                   kernels::MatmulPrecision convolutions);

}  // namespace lockstep::runtime
