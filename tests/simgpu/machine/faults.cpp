#include "tests/simgpu/machine/faults.h"

namespace simgpu {

bool Faults::count(std::string_view function) {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(function);
  if (found != calls_.end()) {
    ++found->second;
  } else {
    calls_.emplace(function, 1);
  }
  return ++total_ == fail_call_;
}

std::uint64_t Faults::calls(std::string_view function) const {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(function);
  return found == calls_.end() ? 0 : found->second;
}

bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
      return true;
    default:
      return false;
  }
}

}  // namespace simgpu
