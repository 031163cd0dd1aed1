#pragma once

#include <nccl.h>

#include <stdexcept>
#include <string>

namespace simgpu::nccl {

/// What an NCCL call answers when it refuses; the text is what ncclGetLastError gives.
struct Failure : std::runtime_error {
  Failure(ncclResult_t the_result, const std::string& text) : std::runtime_error(text), result(the_result) {}
  ncclResult_t result;
};

}  // namespace simgpu::nccl
