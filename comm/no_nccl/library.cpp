// What a build without CUDA answers.
#include "comm/nccl/library.h"

#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

constexpr std::string_view hint = "not built in: configure with -DLOCKSTEP_CUDA=ON";

[[noreturn]] void refuse() {
  throw UsageError("NCCL is " + std::string(hint));
}

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator>, kernels::Device&,
                                                     Seconds) {
  refuse();
}

GpuIdentity gpu_identity(kernels::Device&) {
  refuse();
}

std::string nccl_problem() {
  return "NCCL is " + std::string(hint);
}

std::string nccl_version() {
  return std::string(hint);
}

}  // namespace lockstep::comm
