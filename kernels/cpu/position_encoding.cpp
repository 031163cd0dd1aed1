#include "kernels/position_encoding.h"

#include <memory>
#include <vector>

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const PositionEncoding&, const KernelIo& io) {
  using Op = PositionEncoding;
  const Shape& shape = io.inputs[Op::x].shape;
  const std::int64_t columns = shape[shape.rank() - 1];
  const std::int64_t of_sample = shape[shape.rank() - 2] * columns;
  const std::int64_t total = shape.elements();
  // Shared by the kernel and what is bound of it: sines are dear, and the same in each step.
  const auto table = std::make_shared<std::vector<float>>(static_cast<std::size_t>(of_sample));
  for (std::int64_t i = 0; i < of_sample; ++i)
    (*table)[static_cast<std::size_t>(i)] = position_encoding(i / columns, i % columns, columns);
  return cpu_kernel(io, [=](const Addresses& a) {
    parallel_ranges(total, total, cache_line_floats, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end;) {
        const std::int64_t in_sample = at % of_sample;
        const std::int64_t n = std::min(of_sample - in_sample, end - at);
        const float* const x = a.in(Op::x) + at;
        const float* const e = table->data() + in_sample;
        float* const y = a.out(Op::y) + at;
        for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] + e[i];
        at += n;
      }
    });
  });
}

}  // namespace lockstep::kernels
