// The part of liblockstep_cuda.so that knows NCCL: see module.h.
#include "comm/nccl/module.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "comm/nccl/functions.h"
#include "comm/nccl/nccl_communicator.h"
#include "kernels/base/error.h"
#include "kernels/base/export.h"
#include "kernels/base/host.h"
#include "kernels/cuda/handles.h"
#include "kernels/cuda/module.h"
#include "kernels/cuda/stream.h"

namespace lockstep::comm {
namespace {

/// A process sees one part of a divided GPU, the first that it is given; CUDA may tell the whole GPU's UUID
/// of it.
std::string physical_identity(int device) {
  const char* const given = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string_view first = given == nullptr ? "" : given;
  if (first.starts_with("MIG-")) return std::string(first.substr(0, first.find(',')));
  cudaDeviceProp properties{};
  kernels::check(cudaGetDeviceProperties(&properties, device), "cannot read the GPU's properties");
  return kernels::uuid_text(properties.uuid);
}

std::unique_ptr<Communicator> make(std::unique_ptr<Communicator> inner, kernels::Device& device,
                                   Seconds timeout) {
  return std::make_unique<NcclCommunicator>(std::move(inner), device, timeout);
}

GpuIdentity identity_of(kernels::Device& device) {
  const auto stream = device.make_stream();
  kernels::handle_of(*stream);  // makes the device current
  int index = 0;
  kernels::check(cudaGetDevice(&index), "the current device");
  char bus_id[32] = {};
  kernels::check(cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), index), "a device's address");
  return {.host = boot_id(),
          .physical = physical_identity(index),
          .to_nccl = fmt::format("{} {}", host_to_nccl(), bus_id)};
}

std::string problem() {
  try {
    nccl_functions();
    return {};
  } catch (const DeviceError& error) {
    return error.what();
  }
}

std::string version() {
  if (std::string text = problem(); !text.empty()) return text;
  return "NCCL " + version_text(nccl_functions().version);
}

}  // namespace
}  // namespace lockstep::comm

extern "C" LOCKSTEP_API const lockstep::comm::NcclModule* lockstep_nccl_module() {
  using namespace lockstep::comm;
  static const NcclModule module{.identity = nccl_module_identity(),
                                 .share_clock = lockstep::Clock::share,
                                 .make_communicator = make,
                                 .gpu_identity = identity_of,
                                 .problem = problem,
                                 .version = version};
  return &module;
}
