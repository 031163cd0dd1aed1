#include "comm/nccl/library.h"

#include <utility>

#include "comm/nccl/module.h"
#include "kernels/base/load_module.h"

namespace lockstep::comm {
namespace {

const NcclModule& loaded_module() {
  return load_module_table<NcclModule>({.file = "liblockstep_cuda.so",
                                        .symbol = nccl_module_symbol,
                                        .hint = "install CUDA's runtime libraries, or use --backend host"},
                                       nccl_module_identity());
}

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> inner,
                                                     kernels::Device& device, Seconds timeout) {
  loaded_module().share_clock(Clock::state());
  return loaded_module().make_communicator(std::move(inner), device, timeout);
}

GpuIdentity gpu_identity(kernels::Device& device) {
  return loaded_module().gpu_identity(device);
}

std::string nccl_problem() {
  return loaded_module().problem();
}

std::string nccl_version() {
  return loaded_module().version();
}

}  // namespace lockstep::comm
