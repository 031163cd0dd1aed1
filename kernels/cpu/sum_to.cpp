#include "kernels/sum_to.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd_kernel.h"
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
      : op_(op), walk_(walk_of(io)), sums_(io.outputs[SumTo::y].shape.elements()) {
    const std::size_t of_y = longest_axis(true);
    const std::size_t summed = longest_axis(false);
    const std::int64_t total = walk_.elements();
    const std::int64_t useful = std::min(total / least_part, total / (4 * std::max<std::int64_t>(sums_, 1)));
    if (extent(of_y) < wide)
      parts_ = std::clamp<std::int64_t>(std::min(useful, extent(summed)), 1, most_parts);
    axis_ = std::min(parts_ > 1 || extent(of_y) == 0 ? summed : of_y, walk_.axes - 1);
  }

  std::size_t workspace_bytes() const {
    return parts_ == 1 ? 0 : static_cast<std::size_t>(parts_ * sums_) * sizeof(float);
  }

  void operator()(const Addresses& a) const {
    const float* const x = a.in(SumTo::x);
    float* const y = a.out(SumTo::y);
    const std::int64_t total = walk_.elements();
    if (parts_ == 1) {
      std::fill_n(y, sums_, 0.0F);
      if (walk_.in_strides[0][axis_] == 0) return sum(0, extent(axis_), x, y);
      const std::int64_t align = axis_ + 1 == walk_.axes ? cache_line_floats : 1;
      return parallel_ranges(extent(axis_), total, align,
                             [&](std::int64_t begin, std::int64_t end) { sum(begin, end, x, y); });
    }
    auto* const partial = a.workspace<float>();
    parallel_ranges(parts_, total, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t part = first; part < last; ++part) {
        float* const to = partial + part * sums_;
        std::fill_n(to, sums_, 0.0F);
        sum(part * extent(axis_) / parts_, (part + 1) * extent(axis_) / parts_, x, to);
      }
    });
    std::copy_n(partial, sums_, y);
    for (std::int64_t part = 1; part < parts_; ++part) {
      for (std::int64_t i = 0; i < sums_; ++i) y[i] += partial[part * sums_ + i];
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

  /// y += x, from `begin` to `end` along the axis.
  void sum(std::int64_t begin, std::int64_t end, const float* x, float* y) const {
    PointwiseWalk part = walk_;
    part.extents[axis_] = end - begin;
    x += begin * walk_.out_strides[axis_];
    y += begin * walk_.in_strides[0][axis_];
    const std::size_t inner = part.axes - 1;
    const SumRun run{.n = part.extents[inner], .to_one = part.in_strides[0][inner] == 0};
    const std::int64_t runs = run.n == 0 ? 0 : part.elements() / run.n;
    for (std::int64_t number = 0; number < runs; ++number) {
      std::int64_t from = 0;
      std::int64_t to = 0;
      std::int64_t rest = number;
      for (std::size_t axis = inner; axis-- > 0; rest /= part.extents[axis]) {
        const std::int64_t index = rest % part.extents[axis];
        from += index * part.out_strides[axis];
        to += index * part.in_strides[0][axis];
      }
      kernel_(op_, run, x + from, y + to);
    }
  }

  SumTo op_;
  PointwiseWalk walk_;
  std::int64_t sums_;
  std::int64_t parts_ = 1;
  std::size_t axis_ = 0;
  SumTo::Simd* kernel_ = simd::best<SumTo>();
};

}  // namespace

KernelPtr prepare(Cpu, const SumTo& op, const KernelIo& io) {
  const Sums sums(op, io);
  return simd_kernel(io, sums, sums.workspace_bytes());
}

}  // namespace lockstep::kernels
