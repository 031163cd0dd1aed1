#include "launcher/ranks.h"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::launcher {

int count_ranks(const std::string& wanted, const Cores& cores, int devices) {
  if (wanted == "gpu" && devices == 0) {
    throw DeviceError("--nproc-per-node gpu: no GPU is visible here; check CUDA_VISIBLE_DEVICES, or use cpu");
  }
  if (wanted == "gpu") return devices;
  if (wanted == "cpu") return cores.usable();
  if (wanted == "auto") return devices > 0 ? devices : cores.usable();
  int ranks = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), ranks);
  if (error != std::errc{} || end != wanted.data() + wanted.size() || ranks < 1) {
    throw UsageError(fmt::format("--nproc-per-node {}: want a number from 1, cpu, gpu or auto", wanted));
  }
  return ranks;
}

std::vector<CpuList> choose_slices(const Cores& cores, int ranks, const std::string& threads,
                                   const NumaNodes& nodes) {
  if (std::atoi(threads.c_str()) > cores.usable() / ranks) return {};
  if (!nodes.matter()) return slice_cores(cores, ranks);
  return match_to_gpus(slice_cores(group_by_node(cores, nodes), ranks), nodes);
}

}  // namespace lockstep::launcher
