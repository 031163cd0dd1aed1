#include "kernels/sequence.h"

#include <algorithm>

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"

namespace lockstep::kernels {
namespace {

/// Steps, rows, and bytes of a row in a step.
struct StepsOf {
  std::int64_t steps, rows, bytes;

  explicit StepsOf(const TensorDesc& x)
      : steps(x.shape[0]),
        rows(x.shape[1]),
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
        std::copy_n(a.in<char>(Op::x) + (last * x.rows + row) * x.bytes, x.bytes, to);
      }
    }
  });
}

KernelPtr prepare(Cpu, const LastStepBackward&, const KernelIo& io) {
  using Op = LastStepBackward;
  const StepsOf x(io.outputs[Op::dx]);
  return cpu_kernel(io, [x](const Addresses& a) {
    const auto* const lengths = a.in<std::int64_t>(Op::lengths);
    parallel_ranges(x.steps, x.steps * x.rows * x.bytes, 1, [&](std::int64_t begin, std::int64_t end) {
      std::fill_n(a.out<char>(Op::dx) + begin * x.rows * x.bytes, (end - begin) * x.rows * x.bytes, char{});
    });
    for (std::int64_t row = 0; row < x.rows; ++row) {
      const std::int64_t last = x.last(row, lengths);
      if (last < 0) continue;
      std::copy_n(a.in<char>(Op::dy) + row * x.bytes, x.bytes,
                  a.out<char>(Op::dx) + (last * x.rows + row) * x.bytes);
    }
  });
}

}  // namespace lockstep::kernels
