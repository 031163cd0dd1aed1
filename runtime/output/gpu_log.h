#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "comm/communicator.h"
#include "kernels/device.h"
#include "runtime/output/run_files.h"

namespace lockstep::runtime {

/// Collective. By rank the PCI addresses of the GPUs that are in this rank's machine; empty on CPUs.
std::map<int, std::string> gpus_of_this_machine(comm::Communicator& communicator,
                                                const kernels::Device& device);

/// Writes what the GPUs' sensors tell into log.jsonl, at first and then once a second. Does nothing where
/// there is no NVML.
class GpuLog {
 public:
  /// `bus_ids` by rank. `files` outlives this.
  GpuLog(const RunFiles& files, std::map<int, std::string> bus_ids, std::int64_t step);

  /// The step that the lines name from now on.
  void set_step(std::int64_t step) { step_.store(step, std::memory_order_relaxed); }

 private:
  void run(const std::stop_token& stop) const;

  const RunFiles& files_;
  std::map<int, std::string> bus_ids_;
  std::atomic<std::int64_t> step_;
  std::jthread thread_;
};

}  // namespace lockstep::runtime
