#include "kernels/sequence.h"

#include <algorithm>

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"

namespace lockstep::kernels {
namespace {

/// Rows, steps, and bytes of a step.
struct StepsOf {
  std::int64_t rows, steps, bytes;

  explicit StepsOf(const TensorDesc& x)
      : rows(x.shape[0]),
        steps(x.shape[1]),
        bytes(x.shape.elements(2) * static_cast<std::int64_t>(size_of(x.dtype))) {}

  /// -1: there is none.
  std::int64_t last(std::int64_t row, const std::int64_t* lengths) const {
    return (lengths == nullptr ? steps : std::min(lengths[row], steps)) - 1;
  }
};

}  // namespace

KernelPtr prepare(Cpu, const SequenceLengths&, const KernelIo& io) {
  using Op = SequenceLengths;
  const Shape& shape = io.inputs[Op::tokens].shape;
  return cpu_kernel(io, [rows = shape[0], steps = shape[1]](const Addresses& a) {
    const auto* const tokens = a.in<std::int64_t>(Op::tokens);
    auto* const lengths = a.out<std::int64_t>(Op::lengths);
    parallel_ranges(rows, rows * steps, cache_line_floats, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t* const first = tokens + row * steps;
        lengths[row] = steps - std::count(first, first + steps, std::int64_t{-1});
      }
    });
  });
}

KernelPtr prepare(Cpu, const LastStep&, const KernelIo& io) {
  using Op = LastStep;
  const StepsOf x(io.inputs[Op::x]);
  return cpu_kernel(io, [x](const Addresses& a) {
    const auto* const lengths = a.in<std::int64_t>(Op::lengths);
    for (std::int64_t row = 0; row < x.rows; ++row) {
      const std::int64_t last = x.last(row, lengths);
      char* const to = a.out<char>(Op::y) + row * x.bytes;
      if (last < 0) {
        std::fill_n(to, x.bytes, char{});
      } else {
        std::copy_n(a.in<char>(Op::x) + (row * x.steps + last) * x.bytes, x.bytes, to);
      }
    }
  });
}

KernelPtr prepare(Cpu, const LastStepBackward&, const KernelIo& io) {
  using Op = LastStepBackward;
  const StepsOf x(io.outputs[Op::dx]);
  return cpu_kernel(io, [x](const Addresses& a) {
    const auto* const lengths = a.in<std::int64_t>(Op::lengths);
    parallel_ranges(x.rows, x.rows * x.steps * x.bytes, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t last = x.last(row, lengths);
        char* const to = a.out<char>(Op::dx) + row * x.steps * x.bytes;
        std::fill_n(to, x.steps * x.bytes, char{});
        if (last >= 0) std::copy_n(a.in<char>(Op::dy) + row * x.bytes, x.bytes, to + last * x.bytes);
      }
    });
  });
}

}  // namespace lockstep::kernels
