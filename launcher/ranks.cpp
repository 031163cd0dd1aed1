#include "launcher/ranks.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/number.h"

namespace lockstep::launcher {
namespace {

constexpr Range<std::int64_t> rank_counts{1, 4096};

std::string plural(int count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

int count_ranks(const std::string& wanted, const Cores& cores, int devices) {
  if (wanted == "gpu" && devices == 0) {
    throw DeviceError("--nproc-per-node gpu: no GPU is visible here; check CUDA_VISIBLE_DEVICES, or use cpu");
  }
  if (wanted == "gpu") return devices;
  if (wanted == "cpu") return cores.usable();
  if (wanted == "auto") return devices > 0 ? devices : cores.usable();
  try {
    return static_cast<int>(number_in(wanted, rank_counts));
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--nproc-per-node: {}; or cpu, gpu, auto", error.what()));
  }
}

std::vector<CpuList> choose_slices(const Cores& cores, int ranks, const std::string& threads,
                                   const NumaNodes& nodes) {
  if (std::atoi(threads.c_str()) > cores.usable() / ranks) return {};
  if (!nodes.matter()) return slice_cores(cores, ranks);
  return match_to_gpus(slice_cores(group_by_node(cores, nodes), ranks), nodes);
}

std::string start_line(const Cores& cores, const std::vector<CpuList>& slices, int ranks,
                       const std::string& threads) {
  const int usable = cores.usable();
  const std::string each = threads.empty() ? plural(std::max(1, usable / ranks), "thread")
                                           : fmt::format("OMP_NUM_THREADS={}", threads);
  std::string line = fmt::format("{} on {}: {} each, ", plural(ranks, "rank"), plural(usable, "core"), each);
  if (slices.empty()) return line + (ranks > usable ? "not bound (more ranks than cores)" : "not bound");
  std::string lists;
  for (const CpuList& slice : slices) lists += (lists.empty() ? "" : " | ") + format_cpu_list(slice);
  return line + "bound to cores " + lists;
}

}  // namespace lockstep::launcher
