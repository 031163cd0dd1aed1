// liblockstep_cuda.so: see module.h.
#include "kernels/cuda/module.h"

#include "kernels/cuda/device.h"

extern "C" const lockstep::kernels::CudaModule* lockstep_cuda_module() {
  using namespace lockstep::kernels;
  static const CudaModule module{.identity = cuda_module_identity(),
                                 .make_device = open_cuda_device,
                                 .device_count = cuda_device_count,
                                 .devices = list_cuda_devices,
                                 .versions = list_cuda_versions};
  return &module;
}
