#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd_kernel.h"
#include "kernels/pointwise.h"

namespace lockstep::kernels {
namespace {

/// Runs along the innermost axis; the axes outside it are counted through.
class Runs {
 public:
  Runs(const Pointwise& op, const KernelIo& io)
      : op_(op), walk_(pointwise_walk(io)), dtype_(io.outputs[0].dtype), kernel_(simd::best<Pointwise>()) {}

  void operator()(const Addresses& a) const {
    const std::int64_t length = walk_.extents[walk_.axes - 1];
    const std::int64_t count = walk_.elements() / std::max<std::int64_t>(length, 1);
    if (count == 1) {
      parallel_ranges(length, length, cache_line_floats,
                      [&](std::int64_t begin, std::int64_t end) { run(a, 0, begin, end - begin); });
      return;
    }
    parallel_ranges(count, count * length, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; ++at) run(a, at, 0, length);
    });
  }

 private:
  /// `length` elements from `first` on of the run with number `at`.
  void run(const Addresses& a, std::int64_t at, std::int64_t first, std::int64_t length) const {
    const std::size_t inner = walk_.axes - 1;
    std::int64_t out = first;
    std::array<std::int64_t, Pointwise::most_inputs> in;
    for (std::size_t i = 0; i < op_.inputs; ++i) in[i] = first * walk_.in_strides[i][inner];
    for (std::size_t axis = inner; axis-- > 0; at /= walk_.extents[axis]) {
      const std::int64_t index = at % walk_.extents[axis];
      out += index * walk_.out_strides[axis];
      for (std::size_t i = 0; i < op_.inputs; ++i) in[i] += index * walk_.in_strides[i][axis];
    }
    const auto bytes = static_cast<std::int64_t>(size_of(dtype_));
    PointwiseRun run{.in = {}, .in_stride = {}, .out = {}, .n = length, .dtype = dtype_};
    for (std::size_t i = 0; i < op_.inputs; ++i) {
      run.in[i] = a.in<char>(i) + in[i] * bytes;
      run.in_stride[i] = walk_.in_strides[i][inner];
    }
    for (std::size_t i = 0; i < op_.output_count; ++i) run.out[i] = a.out<char>(i) + out * bytes;
    kernel_(op_, run);
  }

  Pointwise op_;
  PointwiseWalk walk_;
  DType dtype_;
  Pointwise::Simd* kernel_;
};

}  // namespace

void choose_layouts(Cpu, const Pointwise& op, KernelIo& io) {
  choose_pointwise_layouts(op, io);
}

KernelPtr prepare(Cpu, const Pointwise& op, const KernelIo& io) {
  if (io.outputs[0].dtype == DType::f16) throw UsageError("pointwise: f16 is computed on GPUs; use bf16");
  return simd_kernel(io, Runs(op, io));
}

}  // namespace lockstep::kernels
