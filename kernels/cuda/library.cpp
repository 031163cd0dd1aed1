#include "kernels/cuda/library.h"

#include "kernels/base/error.h"
#include "kernels/base/load_module.h"
#include "kernels/cuda/module.h"

namespace lockstep::kernels {
namespace {

const CudaModule& loaded_module() {
  const auto entry = reinterpret_cast<CudaModuleEntry>(
      load_module_entry({.file = "liblockstep_cuda.so",
                         .symbol = cuda_module_symbol,
                         .mend = "install CUDA's runtime libraries, or use --device cpu"}));
  if (entry()->layout == cuda_module_layout) return *entry();
  throw DeviceError("liblockstep_cuda.so is of another version of Lockstep: install both from one build");
}

}  // namespace

std::unique_ptr<Device> make_cuda_device(int index) {
  return loaded_module().make_device(index);
}

std::vector<CudaDeviceInfo> cuda_devices() {
  return loaded_module().devices();
}

std::string cuda_versions() {
  return loaded_module().versions();
}

bool cuda_is_built_in() {
  return true;
}

std::string_view cuda_in_this_build() {
  return LOCKSTEP_CUDA_KIND;
}

}  // namespace lockstep::kernels
