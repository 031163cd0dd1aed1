#include "tests/simgpu/machine/faults.h"

namespace simgpu {
namespace {

/// These do not fail on demand: nobody could do anything about it, and what they would keep is no leak of the
/// program's.
bool gives_back(std::string_view function) {
  return function.find("Destroy") != std::string_view::npos ||
         function.find("Free") != std::string_view::npos;
}

}  // namespace

bool Faults::count(std::string_view function) {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(function);
  if (found != calls_.end()) {
    ++found->second;
  } else {
    calls_.emplace(function, 1);
  }
  return !gives_back(function) && ++total_ == fail_call_;
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
