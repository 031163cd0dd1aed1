#include "kernels/sum_to.h"

#include <algorithm>

#include "kernels/base/half.h"
#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/pointwise.h"

namespace lockstep::kernels {
namespace {

/// x as the output of a walk, y as the operand that is broadcast to it.
PointwiseWalk walk_of(const KernelIo& io) {
  return pointwise_walk({.inputs = {io.outputs[SumTo::y]}, .outputs = {io.inputs[SumTo::x]}});
}

/// Shares the walk out along one axis. Where that is an axis of y, each thread has sums of its own. Else the
/// axis is cut into parts, as many as the shapes say, whose sums are added in their order: the bits do not
/// depend on the team.
class Sums {
 public:
  Sums(const SumTo& op, const KernelIo& io)
      : op_(op),
        walk_(walk_of(io)),
        dtype_(io.inputs[SumTo::x].dtype),
        sums_(io.outputs[SumTo::y].layout_or_row_major().span()) {
    const std::size_t of_y = longest_axis(true);
    const std::size_t summed = longest_axis(false);
    const std::int64_t total = walk_.elements();
    const std::int64_t useful = std::min(total / least_part, total / (4 * std::max<std::int64_t>(sums_, 1)));
    if (extent(of_y) < wide)
      parts_ = std::clamp<std::int64_t>(std::min(useful, extent(summed)), 1, most_parts);
    axis_ = std::min(parts_ > 1 || extent(of_y) == 0 ? summed : of_y, walk_.axes - 1);
  }

  /// The sums of the parts, where there are several; else those that y, of less than f32, cannot hold.
  std::size_t workspace_bytes() const {
    const bool in_y = parts_ == 1 && dtype_ == DType::f32;
    return in_y ? 0 : static_cast<std::size_t>(parts_ * sums_) * sizeof(float);
  }

  void operator()(const Addresses& a) const {
    const char* const x = a.in<char>(SumTo::x);
    float* const partial = workspace_bytes() == 0 ? a.out(SumTo::y) : a.workspace<float>();
    const std::int64_t total = walk_.elements();
    if (parts_ == 1) {
      sum_in_one_part(total, x, partial);
    } else {
      parallel_ranges(parts_, total, 1, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t part = first; part < last; ++part) {
          float* const to = partial + part * sums_;
          std::fill_n(to, sums_, 0.0F);
          sum(part * extent(axis_) / parts_, (part + 1) * extent(axis_) / parts_, x, to);
        }
      });
    }
    for (std::int64_t part = 1; part < parts_; ++part) {
      for (std::int64_t i = 0; i < sums_; ++i) partial[i] += partial[part * sums_ + i];
    }
    if (dtype_ == DType::bf16) {
      for (std::int64_t i = 0; i < sums_; ++i) narrow(partial[i], a.out<BFloat16>(SumTo::y)[i]);
    } else if (workspace_bytes() != 0) {
      std::copy_n(partial, sums_, a.out(SumTo::y));
    }
  }

 private:
  static constexpr std::int64_t most_parts = 64;
  static constexpr std::int64_t least_part = 4096;  ///< elements
  static constexpr std::int64_t wide = 64;          ///< enough of y for any team

  std::int64_t extent(std::size_t axis) const { return axis < walk_.axes ? walk_.extents[axis] : 0; }

  /// Of those that y has, or of those that are summed over; `axes` if there is none.
  std::size_t longest_axis(bool of_y) const {
    std::size_t longest = walk_.axes;
    for (std::size_t axis = 0; axis < walk_.axes; ++axis) {
      if ((walk_.in_strides[0][axis] != 0) == of_y && extent(axis) > extent(longest)) longest = axis;
    }
    return longest;
  }

  void sum_in_one_part(std::int64_t total, const char* x, float* sums) const {
    std::fill_n(sums, sums_, 0.0F);
    if (walk_.in_strides[0][axis_] == 0) return sum(0, extent(axis_), x, sums);
    const std::int64_t align = axis_ + 1 == walk_.axes ? cache_line_floats : 1;
    parallel_ranges(extent(axis_), total, align,
                    [&](std::int64_t begin, std::int64_t end) { sum(begin, end, x, sums); });
  }

  /// sums += x, from `begin` to `end` along the axis.
  void sum(std::int64_t begin, std::int64_t end, const char* x, float* sums) const {
    PointwiseWalk part = walk_;
    part.extents[axis_] = end - begin;
    const auto bytes = static_cast<std::int64_t>(size_of(dtype_));
    x += begin * walk_.out_strides[axis_] * bytes;
    sums += begin * walk_.in_strides[0][axis_];
    const std::size_t inner = part.axes - 1;
    const std::size_t outer_axes = inner > 0 ? inner - 1 : 0;
    SumRun run{.dtype = dtype_,
               .n = part.extents[inner],
               .to_one = part.in_strides[0][inner] == 0,
               .runs = 1,
               .x_step = 0,
               .y_step = 0};
    if (inner > 0) {
      run.runs = part.extents[inner - 1];
      run.x_step = part.out_strides[inner - 1];
      run.y_step = part.in_strides[0][inner - 1];
    }
    const std::int64_t in_runs = run.n * run.runs;
    const std::int64_t groups = in_runs == 0 ? 0 : part.elements() / in_runs;
    for (std::int64_t number = 0; number < groups; ++number) {
      std::int64_t from = 0;
      std::int64_t to = 0;
      std::int64_t rest = number;
      for (std::size_t axis = outer_axes; axis-- > 0; rest /= part.extents[axis]) {
        const std::int64_t index = rest % part.extents[axis];
        from += index * part.out_strides[axis];
        to += index * part.in_strides[0][axis];
      }
      kernel_(op_, run, x + from * bytes, sums + to);
    }
  }

  SumTo op_;
  PointwiseWalk walk_;
  DType dtype_;
  std::int64_t sums_;
  std::int64_t parts_ = 1;
  std::size_t axis_ = 0;
  SumTo::Simd* kernel_ = simd::best<SumTo>();
};

}  // namespace

void choose_layouts(Cpu, const SumTo&, KernelIo& io) {
  choose_sum_layouts(io.inputs[SumTo::x], io.outputs[SumTo::y]);
}

KernelPtr prepare(Cpu, const SumTo& op, const KernelIo& io) {
  const Sums sums(op, io);
  return cpu_kernel(io, sums, sums.workspace_bytes());
}

}  // namespace lockstep::kernels
