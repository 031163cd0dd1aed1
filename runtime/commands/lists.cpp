#include <functional>

#include <fmt/format.h>

#include "comm/mpi/library.h"
#include "comm/nccl/library.h"
#include "comm/world/world.h"
#include "kernels/base/error.h"
#include "kernels/base/gpus.h"
#include "kernels/cuda/library.h"
#include "runtime/commands/commands.h"
#include "runtime/machine/open_device.h"
#include "runtime/plugin/load_plugins.h"

namespace lockstep::runtime {
namespace {

std::string plural(int count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string describe(const comm::World& world) {
  std::string text = fmt::format("rank {} of {}, local rank {} of {}, node {} of {}", world.rank, world.size,
                                 world.local_rank, world.local_size, world.node_rank, world.node_count);
  if (world.master_port != 0) text += fmt::format(", at {}:{}", world.master_addr, world.master_port);
  return text;
}

std::string describe(const comm::Finding& finding) {
  if (finding.broken) return "unusable: " + finding.reason;
  if (!finding.world || finding.source == "alone") return finding.reason;
  return fmt::format("{}: {}", finding.reason, describe(*finding.world));
}

std::string describe(const kernels::CudaDeviceInfo& gpu) {
  std::string text = fmt::format("{}, {}, compute capability {}.{}, {:.1f} of {:.1f} GiB free, {}", gpu.name,
                                 gpu.uuid, gpu.compute_capability / 10, gpu.compute_capability % 10,
                                 static_cast<double>(gpu.free_bytes) / (1 << 30),
                                 static_cast<double>(gpu.memory_bytes) / (1 << 30), gpu.bus_id);
  const CpuList near = cpus_near(gpu.bus_id, affinity_mask());
  if (!near.empty()) text += ", near CPUs " + format_cpu_list(near);
  if (!gpu.peers.empty()) text += ", direct access to GPUs " + format_cpu_list(gpu.peers);
  if (const std::string problem = gpu_problem(gpu.compute_capability); !problem.empty())
    text += ", " + problem;
  return text;
}

/// What is broken is a line of its own: the others tell why.
void attempt(std::string_view name, const std::function<void()>& print) {
  try {
    print();
  } catch (const DeviceError& error) {
    fmt::print("{}: unusable: {}\n", name, error.what());
  }
}

void print_gpus() {
  if (!kernels::cuda_is_built_in()) return fmt::print("cuda: {}\n", kernels::cuda_in_this_build());
  fmt::print("cuda: {}, {}\n", kernels::cuda_in_this_build(), kernels::cuda_versions());
  for (const kernels::CudaDeviceInfo& gpu : kernels::cuda_devices()) {
    fmt::print("gpu {}: {}\n", gpu.index, describe(gpu));
  }
}

void print_machine(const Options& options, const comm::World& world) {
  std::string threads = "no thread";
  attempt("device", [&] {
    const auto device = open_device(options, world);
    const bool is_cpu = device->kind() == kernels::DeviceKind::cpu;
    fmt::print("{}: {}, {}\n", is_cpu ? "cpu" : "gpu of this rank", device->name(),
               device->instruction_set());
    threads = plural(device->threads(), "thread");
  });
  fmt::print("cores: {} of {}, CPUs {}\n", threads, plural(usable_cores(world), "usable core"),
             affinity_list());
  const std::string advice = binding_advice(world);
  if (!advice.empty()) fmt::print("advice: {}\n", advice);
  attempt("cuda", print_gpus);
  fmt::print("backend host: built in\nbackend mpi: {}\n", comm::mpi_in_this_build());
  attempt("backend nccl", [] { fmt::print("backend nccl: {}\n", comm::nccl_version()); });
}

}  // namespace

int datasets_command(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments.front() == "tokenize")
    return tokenize_command({arguments.begin() + 1, arguments.end()});
  const Plugins plugins = load_plugins(parse_options(arguments).plugins);
  for (const data::DatasetEntry& entry : plugins.registry.datasets()) {
    fmt::print("{:<14} {}\n", entry.name, entry.what);
    if (entry.transforms && !entry.transforms->train.empty()) {
      fmt::print("{:<14} --transform {} --eval-transform {}\n", "", entry.transforms->train,
                 entry.transforms->eval);
    }
  }
  return 0;
}

int devices_command(const std::vector<std::string>& arguments) {
  const Options options = parse_options(arguments);
  const auto environment = comm::process_environment();
  fmt::print("who started this process, in order of precedence:\n");
  for (const comm::Finding& finding : comm::examine(environment)) {
    fmt::print("  {:<9} {}\n", finding.source, describe(finding));
  }
  const comm::World world = comm::find_world(environment, options.world);
  fmt::print("taken: {}, {}\n", options.world.empty() ? world.source : world.source + " (--world)",
             describe(world));
  print_machine(options, world);
  return 0;
}

}  // namespace lockstep::runtime
