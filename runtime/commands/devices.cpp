#include <optional>

#include <fmt/format.h>

#include "comm/mpi/library.h"
#include "comm/nccl/library.h"
#include "comm/world/world.h"
#include "kernels/base/error.h"
#include "kernels/base/gpus.h"
#include "kernels/base/json.h"
#include "kernels/base/number.h"
#include "kernels/base/version.h"
#include "kernels/cuda/library.h"
#include "runtime/commands/commands.h"
#include "runtime/commands/take_option.h"
#include "runtime/machine/open_device.h"
#include "runtime/options/option_readers.h"

namespace lockstep::runtime {
namespace {

/// A value, or why there is none.
template <class Value>
struct Attempt {
  std::optional<Value> value{};
  std::string problem{};
};

template <class Get>
auto attempt(const Get& get) -> Attempt<decltype(get())> {
  try {
    return {.value = get()};
  } catch (const DeviceError& error) {
    return {.problem = error.what()};
  }
}

struct RankDevice {
  bool is_cpu = true;
  std::string name;
  std::string instruction_set;
  int threads = 1;
};

struct Cuda {
  Attempt<CudaVersions> versions;
  Attempt<std::vector<kernels::CudaDeviceInfo>> gpus;

  std::string problem() const { return versions.problem.empty() ? gpus.problem : versions.problem; }
};

struct Report {
  std::vector<comm::Finding> findings;
  comm::World world;
  std::string forced;  ///< --world
  Attempt<RankDevice> device;
  std::optional<Cuda> cuda;  ///< of a build with CUDA
  Attempt<std::string> nccl;
};

/// A GPU that is `required` and cannot be had is the environment's fault, whatever the reason.
RankDevice open_rank_device(const Options& options, const comm::World& world, bool required) {
  try {
    const auto device = open_device(options, world);
    return {.is_cpu = device->is_cpu(),
            .name = device->name(),
            .instruction_set = device->instruction_set(),
            .threads = device->threads()};
  } catch (const UsageError& error) {
    if (!required) throw;
    throw DeviceError(error.what());
  }
}

Report examine_machine(const Options& options, bool required) {
  const auto environment = comm::process_environment();
  Report report{.findings = comm::examine(environment),
                .world = comm::find_world(environment, options.world),
                .forced = options.world};
  report.device = attempt([&] { return open_rank_device(options, report.world, required); });
  if (kernels::cuda_is_built_in()) {
    report.cuda = Cuda{.versions = attempt(kernels::cuda_versions), .gpus = attempt(kernels::cuda_devices)};
  }
  report.nccl = attempt(comm::nccl_version);
  return report;
}

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

std::string capability_text(const kernels::CudaDeviceInfo& gpu) {
  return fmt::format("{}.{}", gpu.compute_capability / 10, gpu.compute_capability % 10);
}

std::string cpus_near_text(const kernels::CudaDeviceInfo& gpu) {
  return format_cpu_list(cpus_near(gpu.bus_id, affinity_mask()));
}

std::string memory_text(const kernels::CudaDeviceInfo& gpu) {
  const auto gibibytes = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  if (!gpu.free_bytes) return fmt::format("{:.1f} GiB", gibibytes(gpu.memory_bytes));
  return fmt::format("{:.1f} of {:.1f} GiB free", gibibytes(*gpu.free_bytes), gibibytes(gpu.memory_bytes));
}

std::string describe(const kernels::CudaDeviceInfo& gpu) {
  if (gpu.name.empty()) return "unusable: " + gpu.problem;
  std::string text = fmt::format("{}, {}, compute capability {}, {}, {}, {:.0f} GB/s, {}", gpu.name, gpu.uuid,
                                 capability_text(gpu), plural(gpu.multiprocessors, "SM"), memory_text(gpu),
                                 gpu.memory_bandwidth / 1e9, gpu.bus_id);
  if (const std::string near = cpus_near_text(gpu); !near.empty()) text += ", near CPUs " + near;
  if (!gpu.peers.empty()) text += ", direct access to GPUs " + format_cpu_list(gpu.peers);
  if (!gpu.problem.empty()) text += ", unusable: " + gpu.problem;
  return text;
}

/// What is broken is a line of its own: the others tell why.
void print_unusable(std::string_view name, const std::string& problem) {
  if (!problem.empty()) fmt::print("{}: unusable: {}\n", name, problem);
}

void print_gpus(const Report& report) {
  if (!report.cuda) return fmt::print("cuda: {}\n", kernels::cuda_in_this_build());
  print_unusable("cuda", report.cuda->problem());
  if (const auto& versions = report.cuda->versions.value)
    fmt::print("cuda: {}, {}\n", kernels::cuda_in_this_build(), to_text(*versions));
  if (!report.cuda->gpus.value) return;
  for (const kernels::CudaDeviceInfo& gpu : *report.cuda->gpus.value) {
    fmt::print("gpu {}: {}\n", gpu.index, describe(gpu));
  }
}

void print(const Report& report) {
  fmt::print("who started this process, in order of precedence:\n");
  for (const comm::Finding& finding : report.findings) {
    fmt::print("  {:<9} {}\n", finding.source, describe(finding));
  }
  fmt::print("taken: {}, {}\n",
             report.forced.empty() ? report.world.source : report.world.source + " (--world)",
             describe(report.world));
  print_unusable("device", report.device.problem);
  if (const auto& device = report.device.value) {
    fmt::print("{}: {}, {}\n", device->is_cpu ? "cpu" : "gpu of this rank", device->name,
               device->instruction_set);
  }
  const std::string threads =
      report.device.value ? plural(report.device.value->threads, "thread") + " of " : std::string();
  fmt::print("cores: {}{}, CPUs {}\n", threads, plural(usable_cores(report.world), "usable core"),
             affinity_list());
  const std::string advice = binding_advice(report.world);
  if (!advice.empty()) fmt::print("advice: {}\n", advice);
  print_gpus(report);
  fmt::print("backend host: built in\nbackend mpi: {}\n", comm::mpi_in_this_build());
  print_unusable("backend nccl", report.nccl.problem);
  if (report.nccl.value) fmt::print("backend nccl: {}\n", *report.nccl.value);
}

Json or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json to_json(const kernels::CudaDeviceInfo& gpu) {
  return {{"index", gpu.index},
          {"name", gpu.name},
          {"uuid", gpu.uuid},
          {"bus_id", gpu.bus_id},
          {"compute_capability", capability_text(gpu)},
          {"multiprocessors", gpu.multiprocessors},
          {"memory_bytes", gpu.memory_bytes},
          {"free_bytes", gpu.free_bytes ? Json(*gpu.free_bytes) : Json()},
          {"memory_bandwidth", gpu.memory_bandwidth},
          {"near_cpus", or_null(cpus_near_text(gpu))},
          {"peers", gpu.peers},
          {"problem", or_null(gpu.problem)}};
}

Json device_json(const Attempt<RankDevice>& device) {
  Json json{{"problem", or_null(device.problem)}};
  if (!device.value) return json;
  json["kind"] = device.value->is_cpu ? "cpu" : "cuda";
  json["name"] = device.value->name;
  json["instruction_set"] = device.value->instruction_set;
  json["threads"] = device.value->threads;
  return json;
}

Json cuda_json(const Report& report) {
  Json json{{"build", kernels::cuda_in_this_build()}};
  if (!report.cuda) return json;
  json["problem"] = or_null(report.cuda->problem());
  if (!report.cuda->versions.value) return json;
  const CudaVersions& versions = *report.cuda->versions.value;
  if (const std::string problem = versions.problem(); !problem.empty()) json["problem"] = problem;
  json["version"] = cuda_version_text(versions.runtime);
  json["driver"] = or_null(versions.driver_release);
  json["driver_cuda"] = or_null(versions.driver == 0 ? "" : cuda_version_text(versions.driver));
  json["gemm_library"] = versions.gemm_library;
  json["dnn_library"] = versions.dnn_library;
  return json;
}

Json to_json(const Report& report) {
  const comm::World& world = report.world;
  Json json{{"version", version()}, {"commit", commit()}};
  json["world"] = {{"source", world.source},
                   {"rank", world.rank},
                   {"size", world.size},
                   {"local_rank", world.local_rank},
                   {"local_size", world.local_size},
                   {"node_rank", world.node_rank},
                   {"node_count", world.node_count}};
  json["device"] = device_json(report.device);
  json["cores"] = {{"usable", usable_cores(world)}, {"cpus", affinity_list()}};
  json["cuda"] = cuda_json(report);
  json["gpus"] = Json::array();
  if (report.cuda && report.cuda->gpus.value) {
    for (const kernels::CudaDeviceInfo& gpu : *report.cuda->gpus.value) json["gpus"].push_back(to_json(gpu));
  }
  json["backends"] = {{"host", "built in"},
                      {"mpi", comm::mpi_in_this_build()},
                      {"nccl", report.nccl.value.value_or("unusable: " + report.nccl.problem)}};
  return json;
}

/// "cuda" or "cuda:1", as --device takes them; empty: none.
std::string take_requirement(std::vector<std::string>& arguments) {
  constexpr std::string_view indexed = "cuda:";
  std::string device = take_value(arguments, "--require");
  if (device.empty() || device == "cuda") return device;
  const auto index =
      device.starts_with(indexed) ? parse_number<int>(device.substr(indexed.size())) : std::nullopt;
  if (index && *index >= 0) return device;
  throw UsageError(fmt::format("--require {}: write cuda, or a GPU as --device does: cuda:0", device));
}

}  // namespace

int devices_command(const std::vector<std::string>& given) {
  std::vector<std::string> arguments = given;
  const bool as_json = take_switch(arguments, "--json");
  const std::string required = take_requirement(arguments);
  Options options = parse_options_for(devices_options(), arguments);
  if (!required.empty()) options.device = required;
  const Report report = examine_machine(options, !required.empty());
  if (as_json) {
    fmt::print("{}\n", to_json(report).dump(2));
  } else {
    print(report);
  }
  if (!required.empty() && !report.device.value) throw DeviceError(report.device.problem);
  return 0;
}

}  // namespace lockstep::runtime
