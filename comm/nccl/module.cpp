// The part of liblockstep_cuda.so that knows NCCL: see module.h.
#include "comm/nccl/module.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "comm/nccl/functions.h"
#include "comm/nccl/nccl_communicator.h"
#include "kernels/base/error.h"
#include "kernels/cuda/handles.h"
#include "kernels/cuda/stream.h"

namespace lockstep::comm {
namespace {

/// What NCCL tells hosts apart by; NCCL_HOSTID replaces it whole.
std::string host_identity() {
  if (const char* replaced = std::getenv("NCCL_HOSTID")) return replaced;
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

std::unique_ptr<Communicator> make(std::unique_ptr<Communicator> inner, kernels::Device& device,
                                   Seconds timeout) {
  return std::make_unique<NcclCommunicator>(std::move(inner), device, timeout);
}

std::string identity_of(kernels::Device& device) {
  const auto stream = device.make_stream();
  kernels::handle_of(*stream);  // makes the device current
  int index = 0;
  kernels::check(cudaGetDevice(&index), "the current device");
  char bus_id[32] = {};
  kernels::check(cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), index), "a device's address");
  return fmt::format("{} {}", host_identity(), bus_id);
}

std::string problem() {
  try {
    nccl_functions();
    return {};
  } catch (const DeviceError& error) {
    return error.what();
  }
}

}  // namespace
}  // namespace lockstep::comm

extern "C" const lockstep::comm::NcclModule* lockstep_nccl_module() {
  using namespace lockstep::comm;
  static constexpr NcclModule module{.layout = nccl_module_layout,
                                     .make_communicator = make,
                                     .gpu_identity = identity_of,
                                     .problem = problem};
  return &module;
}
