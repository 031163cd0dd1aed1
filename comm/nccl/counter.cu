#include "kernels/cuda/portability.h"

#include "comm/nccl/progress.h"

namespace lockstep::comm {
namespace {

using kernels::check;

/// One write of both, so that the host sees a number with what belongs to it.
__global__ void count_up(std::uint32_t* count, std::uint32_t what, std::uint64_t* shown) {
  *static_cast<volatile std::uint64_t*>(shown) = static_cast<std::uint64_t>(what) << 32 | ++*count;
}

}  // namespace

StreamCounter::StreamCounter() {
  void* word = nullptr;
  check(cudaMalloc(&word, sizeof(std::uint32_t)), "cannot allocate a counter");
  count_ = static_cast<std::uint32_t*>(word);
  count_owner_.reset(count_);
  check(cudaMemset(word, 0, sizeof(std::uint32_t)), "cannot clear a counter");
  check(cudaStreamSynchronize(nullptr), "cannot clear a counter");  // our streams do not wait for that one
  check(cudaHostAlloc(&word, sizeof(std::uint64_t), cudaHostAllocMapped), "cannot allocate a pinned counter");
  shown_ = static_cast<std::uint64_t*>(word);
  shown_owner_.reset(shown_);
  *shown_ = 0;
}

void StreamCounter::count(std::uint32_t what, cudaStream_t stream) {
  kernels::launch(count_up, 1, 1, 0, stream, count_, what, shown_);
}

StreamCounter::Value StreamCounter::value() const {
  const std::int64_t held = held_;
  const std::uint64_t shown =
      held >= 0 ? static_cast<std::uint64_t>(held) : *static_cast<const volatile std::uint64_t*>(shown_);
  return {.number = static_cast<std::uint32_t>(shown), .what = static_cast<std::uint32_t>(shown >> 32)};
}

void StreamCounter::abandon() noexcept {
  held_ = static_cast<std::int64_t>(*static_cast<const volatile std::uint64_t*>(shown_));
  static_cast<void>(count_owner_.release());
  static_cast<void>(shown_owner_.release());
}

}  // namespace lockstep::comm
