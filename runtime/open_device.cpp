#include "runtime/open_device.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "comm/bootstrap/bootstrap.h"
#include "kernels/base/device_count.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"
#include "kernels/base/number.h"
#include "kernels/cuda/library.h"

namespace lockstep::runtime {
namespace {

constexpr std::string_view indexed = "cuda:";

int default_threads(const comm::World& world) {
  const auto omp = comm::process_environment()("OMP_NUM_THREADS");
  const int wanted = omp ? std::atoi(omp->c_str()) : 0;
  return wanted > 0 ? wanted : usable_cores(world);
}

int given_index(const std::string& option) {
  const auto index = parse_number<int>(option.substr(indexed.size()));
  if (!index || *index < 0) {
    throw UsageError(fmt::format("--device {}: write cuda:0, cuda:1, ...", option));
  }
  return *index;
}

DeviceChoice gpu_of_local_rank(const comm::World& world, int gpus) {
  if (gpus > world.local_rank) return {.kind = kernels::DeviceKind::cuda, .gpu = world.local_rank};
  if (gpus == 1) {
    return {.kind = kernels::DeviceKind::cuda,
            .gpu = 0,
            .warning =
                "one GPU is visible to this rank: if it is another rank's too, both share it; show all "
                "GPUs to all ranks of a node"};
  }
  throw DeviceError(
      fmt::format("{} ranks of this node want a GPU each, and {} are visible: start {} ranks, or use "
                  "--device cpu",
                  world.local_size, gpus, gpus));
}

}  // namespace

int usable_cores(const comm::World& world) {
  cpu_set_t mask;
  if (::sched_getaffinity(0, sizeof(mask), &mask) != 0) return 1;
  const int cores = CPU_COUNT(&mask);
  const bool mask_is_own = cores * world.local_size <= ::sysconf(_SC_NPROCESSORS_ONLN);
  return std::max(1, mask_is_own ? cores : cores / world.local_size);
}

DeviceChoice choose_device(const std::string& option, const comm::World& world, int gpus) {
  if (option == "cpu" || (option == "auto" && gpus == 0)) return {};
  if (option == "auto" || option == "cuda") {
    if (gpus == 0) throw DeviceError("--device cuda: no GPU is visible; use --device cpu");
    return gpu_of_local_rank(world, gpus);
  }
  const int index = given_index(option);
  if (index >= gpus) {
    throw DeviceError(
        fmt::format("--device {}: {} GPU{} visible", option, gpus, gpus == 1 ? " is" : "s are"));
  }
  return {.kind = kernels::DeviceKind::cuda, .gpu = index};
}

std::unique_ptr<kernels::Device> open_device(const Options& options, const comm::World& world) {
  const bool has_cuda = kernels::cuda_is_built_in();
  const bool wants_cuda = options.device.starts_with("cuda");
  if (wants_cuda && !has_cuda) return kernels::make_cuda_device(0);  // says how to build it in
  const DeviceChoice choice = choose_device(options.device, world, has_cuda ? count_devices() : 0);
  if (!choice.warning.empty() && world.rank == 0) spdlog::warn(choice.warning);
  if (choice.kind == kernels::DeviceKind::cuda) return kernels::make_cuda_device(choice.gpu);
  if (has_cuda && options.device == "auto" && world.rank == 0) {
    spdlog::info("no GPU is visible: computes on the CPU");
  }
  return kernels::make_cpu_device(options.threads > 0 ? options.threads : default_threads(world));
}

}  // namespace lockstep::runtime
