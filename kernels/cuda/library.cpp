#include "kernels/cuda/library.h"

#include "kernels/base/load_module.h"
#include "kernels/cuda/module.h"

namespace lockstep::kernels {
namespace {

const CudaModule& loaded_module() {
  return load_module_table<CudaModule>({.file = "liblockstep_cuda.so",
                                        .symbol = cuda_module_symbol,
                                        .hint = "install CUDA's runtime libraries, or use --device cpu"},
                                       cuda_module_identity());
}

}  // namespace

std::unique_ptr<Device> make_cuda_device(int index) {
  return loaded_module().make_device(index);
}

std::unique_ptr<Device> make_described_cuda_device(const std::string& json) {
  return loaded_module().describe_device(json);
}

int visible_cuda_devices() {
  return loaded_module().device_count();
}

std::vector<CudaDeviceInfo> cuda_devices() {
  return loaded_module().devices();
}

CudaVersions cuda_versions() {
  return loaded_module().versions();
}

bool cuda_is_built_in() {
  return true;
}

std::string_view cuda_in_this_build() {
  return LOCKSTEP_CUDA_KIND;
}

}  // namespace lockstep::kernels
