#include "runtime/machine/open_device.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "comm/world/environment.h"
#include "comm/world/world.h"
#include "kernels/base/cores.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/gpus.h"
#include "kernels/base/log.h"
#include "kernels/base/number.h"
#include "kernels/cuda/library.h"

namespace lockstep::runtime {
namespace {

constexpr std::string_view indexed = "cuda:";

int default_threads(const comm::World& world) {
  const int wanted = comm::omp_threads(comm::process_environment());
  return wanted > 0 ? wanted : usable_cores(world);
}

int given_index(const std::string& option) {
  const auto index = parse_number<int>(option.substr(indexed.size()));
  if (!index || *index < 0) {
    throw UsageError(fmt::format("--device {}: write cuda:0, cuda:1, ...", option));
  }
  return *index;
}

DeviceSelection gpu_of_local_rank(const comm::World& world, int gpus, bool may_share) {
  DeviceSelection selection{.kind = DeviceKind::cuda, .gpu = world.local_rank % gpus};
  if (world.local_size <= gpus || may_share) return selection;
  if (gpus > 1) {
    throw UsageError(fmt::format(
        "{} ranks of this node want a GPU each, and {} are visible: --nproc_per_node={}, or --backend "
        "host with launch --allow-gpu-sharing",
        world.local_size, gpus, gpus));
  }
  selection.warning =
      "each rank sees one GPU alone: NCCL may miss their links; show all GPUs to all ranks of a node";
  return selection;
}

/// The number that CUDA counts. Without device files `auto` does not load CUDA.
int visible_gpus(const std::string& option) {
  const bool has_files = option != "auto" || count_devices() > 0;
  if (option == "cpu" || !has_files) return 0;
  const int gpus = kernels::visible_cuda_devices();
  if (gpus == 0 && option == "auto") kernels::make_cuda_device(0);  // throws the reason
  return gpus;
}

/// Why this rank sees the GPUs that it sees, for messages.
std::string visibility() {
  const auto visible = comm::process_environment()("CUDA_VISIBLE_DEVICES");
  return visible ? fmt::format("CUDA_VISIBLE_DEVICES is '{}'", *visible) : "there is no /dev/nvidia0";
}

}  // namespace

std::string affinity_list() {
  std::ifstream file("/proc/self/status");
  const std::string name = "Cpus_allowed_list:\t";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name)) return line.substr(name.size());
  }
  return "unknown";
}

CpuList cpus_near(const std::string& bus_id, const CpuList& allowed, const std::filesystem::path& root) {
  const auto node = parse_number<int>(first_line(root / "sys/bus/pci/devices" / bus_id / "numa_node"));
  if (bus_id.empty() || !node || *node < 0) return {};  // -1: the firmware does not know
  const auto file = fmt::format("sys/devices/system/node/node{}/cpulist", *node);
  CpuList near;
  std::ranges::set_intersection(parse_cpu_list(first_line(root / file)), allowed, std::back_inserter(near));
  return near;
}

void bind_near(const std::string& bus_id) {
  const CpuList allowed = affinity_mask();
  const CpuList near = cpus_near(bus_id, allowed);
  if (near.empty() || near == allowed) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : near) CPU_SET(cpu, &set);
  // Without permission the rank works too, only farther from its GPU.
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    log::warn("cannot bind to CPUs {}", format_cpu_list(near));
}

std::string binding_advice(const comm::World& world, const CpuList& allowed,
                           const std::filesystem::path& root) {
  if (world.source != "openmpi" || world.size == 1) return {};
  if (group_by_core(allowed, root).size() != 1 || std::ssize(allowed) >= online_cpus(root)) return {};
  return "mpirun has bound this rank to one core, which computing and exchanging have to share: give it "
         "--bind-to none";
}

int usable_cores(const comm::World& world, const CpuList& allowed, const std::filesystem::path& root) {
  const auto cpus = static_cast<int>(allowed.size());
  const bool mask_is_own = cpus * world.local_size <= online_cpus(root);
  // Launchers divide masks, never the quota: it is of the group that all ranks of the node are in.
  return cpus_within(cgroup_quota(root) / world.local_size, mask_is_own ? cpus : cpus / world.local_size);
}

bool may_share_gpus(const comm::Environment& environment) {
  return environment("LOCKSTEP_GPU_SHARING").value_or("0") == "1";
}

DeviceSelection choose_device(const std::string& option, const comm::World& world, int gpus, bool may_share) {
  if (option == "cpu" || (option == "auto" && gpus == 0)) return {};
  if (gpus == 0) {
    throw DeviceError(fmt::format("--device {}: this rank sees no GPU, {}; show it one, or use --device cpu",
                                  option, visibility()));
  }
  if (option == "auto" || option == "cuda") return gpu_of_local_rank(world, gpus, may_share);
  const int index = given_index(option);
  if (index >= gpus) {
    throw DeviceError(
        fmt::format("--device {}: {} GPU{} visible", option, gpus, gpus == 1 ? " is" : "s are"));
  }
  return {.kind = DeviceKind::cuda, .gpu = index};
}

bool syncs_launches(const Options& options) {
  return options.sync_launch || comm::process_environment()("CUDA_LAUNCH_BLOCKING") == "1";
}

std::unique_ptr<kernels::Device> open_device(const Options& options, const comm::World& world) {
  // Before CUDA's first call, which reads it: of kernels of the libraries, too, the launch itself fails then.
  if (options.sync_launch) ::setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  const bool has_cuda = kernels::cuda_is_built_in();
  const bool wants_cuda = options.device.starts_with("cuda");
  if (wants_cuda && !has_cuda) return kernels::make_cuda_device(0);  // throws how to build it in
  const DeviceSelection selection =
      choose_device(options.device, world, has_cuda ? visible_gpus(options.device) : 0,
                    may_share_gpus(comm::process_environment()));
  if (!selection.warning.empty() && world.rank == 0) log::warn(selection.warning);
  if (selection.kind == DeviceKind::cuda) return kernels::make_cuda_device(selection.gpu);
  if (has_cuda && options.device == "auto" && world.rank == 0) {
    log::info("no GPU is visible: computes on the CPU");
  }
  return kernels::make_cpu_device(options.threads > 0 ? options.threads : default_threads(world));
}

}  // namespace lockstep::runtime
