#include <fmt/format.h>

#include "comm/bootstrap/bootstrap.h"
#include "comm/mpi/library.h"
#include "comm/nccl/library.h"
#include "kernels/cuda/library.h"
#include "runtime/affinity.h"
#include "runtime/commands/commands.h"
#include "runtime/open_device.h"

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

void print_gpus() {
  if (!kernels::cuda_is_built_in()) return fmt::print("cuda: {}\n", kernels::cuda_in_this_build());
  fmt::print("cuda: {}, {}\n", kernels::cuda_in_this_build(), kernels::cuda_versions());
  for (const kernels::CudaDeviceInfo& gpu : kernels::cuda_devices()) {
    fmt::print("gpu {}: {}, compute capability {}.{}, {:.1f} of {:.1f} GiB free, {}\n", gpu.index, gpu.name,
               gpu.compute_capability / 10, gpu.compute_capability % 10,
               static_cast<double>(gpu.free_bytes) / (1 << 30),
               static_cast<double>(gpu.memory_bytes) / (1 << 30), gpu.bus_id);
  }
}

void print_machine(const Options& options, const comm::World& world) {
  const auto device = open_device(options, world);
  fmt::print("{}: {}, {}\n", device->kind() == kernels::DeviceKind::cpu ? "cpu" : "gpu of this rank",
             device->name(), device->instruction_set());
  fmt::print("cores: {} of {}, CPUs {}\n", plural(device->threads(), "thread"),
             plural(usable_cores(world), "usable core"), affinity_list());
  const std::string advice = binding_advice(world);
  if (!advice.empty()) fmt::print("advice: {}\n", advice);
  print_gpus();
  fmt::print("backend host: built in\nbackend mpi: {}\nbackend nccl: {}\n",
             comm::mpi_in_this_build(), comm::nccl_in_this_build());
}

}  // namespace

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
