// What went wrong: the last error of a thread, names and texts.

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "tests/simgpu/cudart/error_names.h"
#include "tests/simgpu/machine/call.h"

using namespace simgpu;

namespace {

/// "cudaErrorMemoryAllocation": "memory allocation"
std::string text_from(std::string name) {
  name.erase(0, std::string("cudaError").size());
  std::string text;
  for (const char letter : name) {
    const bool capital = letter >= 'A' && letter <= 'Z';
    if (capital && !text.empty()) text += ' ';
    text += capital ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  return text;
}

const char* usual_text(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchOutOfResources:
      return "too many resources requested for launch";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    default:
      return nullptr;
  }
}

}  // namespace

cudaError_t cudaGetLastError() {
  const cudaError_t sticky = [] {
    Machine& m = machine();
    const std::lock_guard lock(m.mutex);
    return m.sticky_error;
  }();
  return std::exchange(last_error(), sticky);
}

cudaError_t cudaPeekAtLastError() {
  return last_error();
}

const char* cudaGetErrorName(cudaError_t error) {
  const char* name = name_of(error);
  return name ? name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  if (const char* text = usual_text(error)) return text;
  const char* name = name_of(error);
  if (!name) return "unrecognized error code";
  static std::mutex mutex;
  static std::map<cudaError_t, std::string> texts;
  const std::lock_guard lock(mutex);
  return texts.try_emplace(error, text_from(name)).first->second.c_str();
}
