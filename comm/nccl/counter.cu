#include "kernels/cuda/portability.h"

#include "comm/nccl/progress.h"

namespace lockstep::comm {
namespace {

using kernels::check;

__global__ void count_up(std::uint32_t* count, std::uint32_t* shown) {
  *static_cast<volatile std::uint32_t*>(shown) = ++*count;
}

}  // namespace

StreamCounter::StreamCounter() {
  void* word = nullptr;
  check(cudaMalloc(&word, sizeof(std::uint32_t)), "cannot allocate a counter");
  count_ = static_cast<std::uint32_t*>(word);
  count_owner_.reset(count_);
  check(cudaMemset(word, 0, sizeof(std::uint32_t)), "cannot clear a counter");
  check(cudaStreamSynchronize(nullptr), "cannot clear a counter");  // our streams do not wait for that one
  check(cudaHostAlloc(&word, sizeof(std::uint32_t), cudaHostAllocMapped), "cannot allocate a pinned counter");
  shown_ = static_cast<std::uint32_t*>(word);
  shown_owner_.reset(shown_);
  *shown_ = 0;
}

void StreamCounter::count(cudaStream_t stream) {
  kernels::launch(count_up, 1, 1, 0, stream, count_, shown_);
}

std::uint32_t StreamCounter::value() const {
  const std::int64_t held = held_;
  return held >= 0 ? static_cast<std::uint32_t>(held) : *static_cast<const volatile std::uint32_t*>(shown_);
}

void StreamCounter::abandon() noexcept {
  held_ = value();
  static_cast<void>(count_owner_.release());
  static_cast<void>(shown_owner_.release());
}

}  // namespace lockstep::comm
