#include "kernels/cuda/portability.h"

#include "comm/nccl/progress.h"

#include <algorithm>

namespace lockstep::comm {
namespace {

using kernels::check;

/// One write of number and what, so that the host sees what belongs together, after the time.
__global__ void count_up(std::uint32_t* count, std::uint32_t what, std::uint64_t* shown) {
  const std::uint32_t number = ++*count;
  auto* const words = static_cast<volatile std::uint64_t*>(shown);
  words[1 + number % StreamCounter::kept_times] = kernels::device_nanoseconds();
  __threadfence_system();
  words[0] = static_cast<std::uint64_t>(what) << 32 | number;
}

}  // namespace

StreamCounter::StreamCounter() {
  void* word = nullptr;
  check(cudaMalloc(&word, sizeof(std::uint32_t)), "cannot allocate a counter");
  count_ = static_cast<std::uint32_t*>(word);
  count_owner_.reset(count_);
  check(cudaMemset(word, 0, sizeof(std::uint32_t)), "cannot clear a counter");
  check(cudaStreamSynchronize(nullptr), "cannot clear a counter");  // our streams do not wait for that one
  constexpr std::size_t bytes = (1 + kept_times) * sizeof(std::uint64_t);
  check(cudaHostAlloc(&word, bytes, cudaHostAllocMapped), "cannot allocate a pinned counter");
  shown_ = static_cast<std::uint64_t*>(word);
  shown_owner_.reset(shown_);
  std::fill_n(shown_, 1 + kept_times, 0);
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

std::int64_t StreamCounter::time_of(std::uint32_t number) const {
  return static_cast<std::int64_t>(
      static_cast<const volatile std::uint64_t*>(shown_)[1 + number % kept_times]);
}

void StreamCounter::abandon() noexcept {
  held_ = static_cast<std::int64_t>(*static_cast<const volatile std::uint64_t*>(shown_));
  static_cast<void>(count_owner_.release());
  static_cast<void>(shown_owner_.release());
}

}  // namespace lockstep::comm
