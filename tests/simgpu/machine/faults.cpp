#include "tests/simgpu/machine/faults.h"

#include <cstdio>

namespace simgpu {
namespace {

/// These do not fail on demand: nobody could do anything about it, and what they would keep is no leak of the
/// program's.
bool gives_back(std::string_view function) {
  return function.find("Destroy") != std::string_view::npos ||
         function.find("Free") != std::string_view::npos;
}

}  // namespace

void Faults::note(std::string_view function) {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(function);
  if (found != calls_.end()) {
    ++found->second;
  } else {
    calls_.emplace(function, 1);
  }
}

bool Faults::count(std::string_view function) {
  note(function);
  const std::lock_guard lock(mutex_);
  const bool counts = fail_function_.empty() ? !gives_back(function) : function == fail_function_;
  const bool fails = counts && ++total_ == fail_call_;
  // So that who counts up knows a failure that was passed over from a call that never came.
  if (fails) std::fprintf(stderr, "simgpu: call %ju fails on demand\n", static_cast<std::uintmax_t>(total_));
  return fails;
}

bool Faults::is_failing_run() {
  const std::lock_guard lock(mutex_);
  return ++runs_ == fail_run_;
}

std::uint64_t Faults::calls(std::string_view function) const {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(function);
  return found == calls_.end() ? 0 : found->second;
}

Faults::Calls Faults::all_calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
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
