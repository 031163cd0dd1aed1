#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/base/alignment.h"
#include "kernels/kernel.h"

namespace lockstep::kernels {

/// A kernel whose launch calls `run(addresses)`.
template <class Run>
class SimdKernel : public Kernel {
 public:
  SimdKernel(std::size_t inputs, Run run, std::size_t workspace)
      : inputs_(inputs), run_(std::move(run)), workspace_(workspace) {}

  std::size_t workspace_bytes() const override { return workspace_; }
  std::unique_ptr<BoundKernel> bind(std::span<void* const> args, void* workspace) const override {
    return std::make_unique<Bound>(run_, Addresses(args, inputs_, workspace));
  }

 private:
  class Bound : public BoundKernel {
   public:
    Bound(Run run, Addresses addresses) : run_(std::move(run)), addresses_(std::move(addresses)) {}
    void launch(Stream&) override { run_(addresses_); }

   private:
    Run run_;
    Addresses addresses_;
  };

  std::size_t inputs_;
  Run run_;
  std::size_t workspace_;
};

template <class Run>
KernelPtr simd_kernel(const KernelIo& io, Run run, std::size_t workspace = 0) {
  return std::make_unique<SimdKernel<Run>>(io.inputs.size(), std::move(run), workspace);
}

/// Floats of a cache line: parts of a thread that are multiples of it share no line with other threads.
constexpr std::int64_t cache_line_floats = cache_line / sizeof(float);

/// Work below this many elements (or multiply-adds) is not worth waking a team for.
constexpr std::int64_t parallel_grain = 1 << 15;

/// `body(begin, end)` on the team, each thread one contiguous part of [0, n), its bounds multiples of
/// `align`; on the calling thread alone if `work` is small.
template <class Body>
void parallel_ranges(std::int64_t n, std::int64_t work, std::int64_t align, const Body& body) {
  if (work < 2 * parallel_grain || omp_get_max_threads() == 1) {
    body(std::int64_t{0}, n);
    return;
  }
#pragma omp parallel
  {
    const std::int64_t team = omp_get_num_threads();
    const std::int64_t part = (n + team * align - 1) / (team * align) * align;
    const std::int64_t begin = std::min(n, omp_get_thread_num() * part);
    const std::int64_t end = std::min(n, begin + part);
    if (begin < end) body(begin, end);
  }
}

}  // namespace lockstep::kernels
