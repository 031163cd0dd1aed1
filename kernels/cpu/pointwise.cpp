#include <algorithm>

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/pointwise.h"

namespace lockstep::kernels {
namespace {

/// Runs along the innermost axis, of two joined where it is short; the axes outside are counted through.
class Runs {
 public:
  Runs(const Pointwise& op, const KernelIo& io)
      : op_(op), walk_(pointwise_walk(io)), dtype_(io.outputs[0].dtype), kernel_(simd::best<Pointwise>()) {
    outer_axes_ = walk_.axes - 1;
    length_ = walk_.extents[outer_axes_];
    if (joins_rows()) join_rows();
  }

  void operator()(const Addresses& a) const {
    const std::int64_t count = walk_.elements() / std::max<std::int64_t>(length_, 1);
    if (count == 1) {
      parallel_ranges(length_, length_, rows_joined_ ? walk_.extents[walk_.axes - 1] : cache_line_floats,
                      [&](std::int64_t begin, std::int64_t end) { run(a, 0, begin, end - begin); });
      return;
    }
    parallel_ranges(count, count * length_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; ++at) run(a, at, 0, length_);
    });
  }

 private:
  /// Shorter runs cost more to start than to compute.
  static constexpr std::int64_t short_run = 512;

  /// Whether each operand goes on from a run to the next, or is the same in both.
  bool joins_rows() const {
    if (walk_.axes < 2 || length_ >= short_run) return false;
    const std::size_t inner = walk_.axes - 1;
    const auto continues = [&](const auto& strides) {
      return strides[inner - 1] == strides[inner] * walk_.extents[inner];
    };
    return continues(walk_.out_strides) &&
           std::all_of(walk_.in_strides.begin(), walk_.in_strides.begin() + op_.inputs,
                       [&](const auto& strides) { return strides[inner - 1] == 0 || continues(strides); });
  }

  void join_rows() {
    const std::size_t inner = walk_.axes - 1;
    rows_joined_ = true;
    outer_axes_ = inner - 1;
    length_ = walk_.extents[inner - 1] * walk_.extents[inner];
    for (std::size_t i = 0; i < op_.inputs; ++i) {
      const bool again = walk_.in_strides[i][inner - 1] == 0 && walk_.in_strides[i][inner] != 0;
      period_[i] = again ? walk_.extents[inner] : 0;
    }
  }

  /// `length` elements from `first` on of the run with number `at`. A run of joined rows is cut between them.
  void run(const Addresses& a, std::int64_t at, std::int64_t first, std::int64_t length) const {
    const std::size_t inner = walk_.axes - 1;
    std::int64_t out = first;
    std::array<std::int64_t, Pointwise::most_inputs> in;
    for (std::size_t i = 0; i < op_.inputs; ++i) {
      in[i] = period_[i] == 0 ? first * walk_.in_strides[i][inner] : 0;
    }
    for (std::size_t axis = outer_axes_; axis-- > 0; at /= walk_.extents[axis]) {
      const std::int64_t index = at % walk_.extents[axis];
      out += index * walk_.out_strides[axis];
      for (std::size_t i = 0; i < op_.inputs; ++i) in[i] += index * walk_.in_strides[i][axis];
    }
    const auto bytes = static_cast<std::int64_t>(size_of(dtype_));
    PointwiseRun run{.in = {}, .in_stride = {}, .in_period = {}, .out = {}, .n = length, .dtype = dtype_};
    for (std::size_t i = 0; i < op_.inputs; ++i) {
      run.in[i] = a.in<char>(i) + in[i] * bytes;
      run.in_stride[i] = walk_.in_strides[i][inner];
      run.in_period[i] = period_[i];
    }
    for (std::size_t i = 0; i < op_.output_count; ++i) run.out[i] = a.out<char>(i) + out * bytes;
    kernel_(op_, run);
  }

  Pointwise op_;
  PointwiseWalk walk_;
  DType dtype_;
  Pointwise::Simd* kernel_;
  std::size_t outer_axes_;
  std::int64_t length_;  ///< of a run
  bool rows_joined_ = false;
  std::array<std::int64_t, Pointwise::most_inputs> period_{};
};

}  // namespace

void choose_layouts(Cpu, const Pointwise& op, KernelIo& io) {
  choose_pointwise_layouts(op, io);
}

KernelPtr prepare(Cpu, const Pointwise& op, const KernelIo& io) {
  return cpu_kernel(io, Runs(op, io));
}

}  // namespace lockstep::kernels
