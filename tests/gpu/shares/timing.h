#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "kernels/dispatch.h"
#include "kernels/step_state.h"

namespace lockstep::shares {

/// Shortest of many runs, in seconds: other processes only ever make a run longer.
double shortest(const std::function<void()>& run, double budget_seconds = 0.3);

/// What the tensors of a launch hold. f32 and half tensors hold random numbers, since a GPU draws less power,
/// and so runs faster, on zeros; a tensor of the size of a StepState holds `state`, one of i64 random numbers
/// from `least` to `most`.
struct Contents {
  kernels::StepState state{};
  std::int64_t least = 0, most = 0;
};

/// Fills `memory` with random numbers that are of ordinary size as bf16 and as f32.
void fill_with_random(std::span<std::byte> memory);

/// A kernel bound to operands of its own, which hold what `contents` says.
class LoneLaunch {
 public:
  LoneLaunch(kernels::Device& device, const kernels::Kernel& kernel, const kernels::KernelIo& io,
             const Contents& contents);

  /// Launches it and waits.
  void run();
  kernels::BoundKernel& bound() { return *bound_; }
  kernels::Stream& stream() { return *stream_; }

 private:
  std::unique_ptr<kernels::Stream> stream_;
  std::vector<std::unique_ptr<kernels::Memory>> memory_;
  std::unique_ptr<kernels::BoundKernel> bound_;
};

/// Seconds of one launch, the fastest. A device with graphs replays a few rounds of launches back to back, so
/// that launching costs nothing; without graphs single launches are timed for `budget_seconds`. What fits the
/// device's cache stays in it from launch to launch: the bandwidth of small tensors may come out above that
/// of memory.
double seconds_of_launch(kernels::Device& device, const kernels::Kernel& kernel, const kernels::KernelIo& io,
                         const Contents& contents, double budget_seconds = 0.1);

}  // namespace lockstep::shares
