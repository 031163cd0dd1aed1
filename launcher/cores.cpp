#include "launcher/cores.h"

#include <algorithm>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/gpus.h"
#include "kernels/base/number.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;

struct Gpu {
  std::string bus_id;
  std::string uuid;
};

std::string uuid_in(const fs::path& information) {
  std::ifstream file(information);
  for (std::string line; std::getline(file, line);) {
    const auto uuid = line.find("GPU-");
    if (line.starts_with("GPU UUID:") && uuid != std::string::npos) return line.substr(uuid);
  }
  return {};
}

std::vector<Gpu> gpus_on_the_bus(const fs::path& root) {
  std::error_code missing;
  std::vector<Gpu> gpus;
  for (const auto& entry : fs::directory_iterator(root / "proc/driver/nvidia/gpus", missing)) {
    gpus.push_back({entry.path().filename().string(), uuid_in(entry.path() / "information")});
  }
  std::ranges::sort(gpus, {}, &Gpu::bus_id);
  return gpus;
}

int node_of_gpu(const Gpu& gpu, const fs::path& root) {
  return parse_number<int>(first_line(root / "sys/bus/pci/devices" / gpu.bus_id / "numa_node")).value_or(-1);
}

/// The GPU that an entry of CUDA_VISIBLE_DEVICES means: its number, or its UUID or the beginning of that.
const Gpu* find_gpu(const std::vector<Gpu>& gpus, const std::string& entry) {
  if (const auto number = parse_number<std::size_t>(entry)) {
    return *number < gpus.size() ? &gpus[*number] : nullptr;
  }
  const auto found = std::ranges::find_if(gpus, [&](const Gpu& gpu) { return gpu.uuid.starts_with(entry); });
  return found == gpus.end() ? nullptr : &*found;
}

std::vector<CpuList> cpus_by_node(const fs::path& root) {
  std::vector<CpuList> nodes;
  while (true) {
    const fs::path file = root / fmt::format("sys/devices/system/node/node{}/cpulist", nodes.size());
    if (!fs::exists(file)) return nodes;
    nodes.push_back(parse_cpu_list(first_line(file)));
  }
}

constexpr Range<std::int64_t> rank_counts{1, 4096};

std::string plural(int count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

int NumaNodes::node_of(int cpu) const {
  const auto has_it = [cpu](const CpuList& node) { return std::ranges::binary_search(node, cpu); };
  const auto found = std::ranges::find_if(cpus, has_it);
  return found == cpus.end() ? -1 : static_cast<int>(found - cpus.begin());
}

NumaNodes find_numa_nodes(const std::string& visible, const fs::path& root) {
  const std::vector<Gpu> gpus = gpus_on_the_bus(root);
  if (gpus.empty()) return {};
  NumaNodes nodes{.cpus = cpus_by_node(root), .gpus = {}};
  if (visible.empty()) {
    for (const Gpu& gpu : gpus) nodes.gpus.push_back(node_of_gpu(gpu, root));
  }
  for (const std::string& entry : visible_devices(visible)) {
    const Gpu* gpu = find_gpu(gpus, entry);
    nodes.gpus.push_back(gpu == nullptr ? -1 : node_of_gpu(*gpu, root));
  }
  return nodes;
}

Cores group_by_node(Cores cores, const NumaNodes& nodes) {
  std::ranges::stable_sort(cores.cores, {}, [&](const CpuList& core) { return nodes.node_of(core.front()); });
  return cores;
}

std::vector<CpuList> match_to_gpus(std::vector<CpuList> slices, const NumaNodes& nodes) {
  // Each rank takes the first slice on its node from those that earlier ranks have left; a rank without one
  // leaves the choice to the others.
  std::vector<CpuList> matched(slices.size());
  for (std::size_t rank = 0; rank < matched.size(); ++rank) {
    const int wanted = nodes.gpus[rank % nodes.gpus.size()];
    const auto near = std::ranges::find_if(
        slices, [&](const CpuList& slice) { return wanted >= 0 && nodes.node_of(slice.front()) == wanted; });
    if (near == slices.end()) continue;
    matched[rank] = std::move(*near);
    slices.erase(near);
  }
  auto left = slices.begin();
  for (CpuList& slice : matched) {
    if (slice.empty()) slice = std::move(*left++);
  }
  return matched;
}

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

std::vector<CpuList> choose_slices(const Cores& cores, int ranks, int omp_threads, const NumaNodes& nodes) {
  if (!nodes.matter()) return slice_cores(cores, ranks, omp_threads);
  return match_to_gpus(slice_cores(group_by_node(cores, nodes), ranks, omp_threads), nodes);
}

std::string start_line(const Cores& cores, const std::vector<CpuList>& slices, int ranks,
                       const std::string& threads) {
  const int usable = cores.usable();
  const std::string each =
      threads.empty() ? plural(cores.per_rank(ranks), "thread") : fmt::format("OMP_NUM_THREADS={}", threads);
  std::string line = fmt::format("{} on {}: {} each, ", plural(ranks, "rank"), plural(usable, "core"), each);
  if (slices.empty()) return line + (ranks > usable ? "not bound (more ranks than cores)" : "not bound");
  std::string lists;
  for (const CpuList& slice : slices) lists += (lists.empty() ? "" : " | ") + format_cpu_list(slice);
  return line + "bound to cores " + lists;
}

}  // namespace lockstep::launcher
