// What a build without CUDA answers.
#include "kernels/cuda/library.h"

#include "kernels/base/error.h"

namespace lockstep::kernels {
namespace {

[[noreturn]] void refuse() {
  throw UsageError("CUDA is not built in: configure with -DLOCKSTEP_CUDA=ON");
}

}  // namespace

std::unique_ptr<Device> make_cuda_device(int) {
  refuse();
}

std::unique_ptr<Device> make_described_cuda_device(const std::string&) {
  refuse();
}

int visible_cuda_devices() {
  refuse();
}

std::vector<CudaDeviceInfo> cuda_devices() {
  refuse();
}

CudaVersions cuda_versions() {
  refuse();
}

bool cuda_is_built_in() {
  return false;
}

std::string_view cuda_in_this_build() {
  return "not built in: configure with -DLOCKSTEP_CUDA=ON";
}

}  // namespace lockstep::kernels
