#include "comm/nccl/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/cuda/handles.h"

namespace lockstep::comm {

NcclArena::NcclArena(const NcclFunctions& nccl, NcclGroup& group, std::size_t bytes, bool as_window,
                     cudaStream_t stream, const Deadline& deadline)
    : nccl_(nccl), group_(group) {
  void* memory = nullptr;
  const ncclResult_t result = nccl_.allocate(&memory, std::max<std::size_t>(bytes, 1));
  if (result != ncclSuccess) {
    throw DeviceError(
        fmt::format("cuda: {} bytes for gradients: {}; use a smaller model or fewer processes on "
                    "this GPU",
                    bytes, nccl_.error_string(result)));
  }
  bytes_ = {static_cast<std::byte*>(memory), bytes};
  kernels::check(cudaMemsetAsync(memory, 0, bytes, stream), "clearing the gradients");
  kernels::check(cudaStreamSynchronize(stream), "clearing the gradients");
  if (!as_window) return;
  group_.make("registering the gradients with NCCL", deadline, [&](ncclComm_t communicator) {
    return nccl_.register_window(communicator, memory, bytes, &window_, symmetric_window);
  });
}

NcclArena::~NcclArena() {
  if (bytes_.data() != nullptr) nccl_.free(bytes_.data());
}

void NcclArena::deregister(const Deadline& deadline) {
  if (window_ == nullptr) return;
  group_.make("taking the gradients back from NCCL", deadline, [&](ncclComm_t communicator) {
    return nccl_.deregister_window(communicator, std::exchange(window_, nullptr));
  });
}

}  // namespace lockstep::comm
