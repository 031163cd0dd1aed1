#include "kernels/split.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"

namespace lockstep::kernels {
namespace {

/// `copy(part, offset in the part, offset in the whole, bytes)` for what lies in [begin, end) of the whole.
template <class Copy>
void for_each_run(const PartRows& parts, std::int64_t begin, std::int64_t end, const Copy& copy) {
  if (begin == end) return;
  for (std::int64_t row = begin / parts.row_bytes; row * parts.row_bytes < end; ++row) {
    std::int64_t run = row * parts.row_bytes;
    for (std::size_t part = 0; part < parts.run_bytes.size(); ++part) {
      const std::int64_t from = std::max(begin, run);
      const std::int64_t to = std::min(end, run + parts.run_bytes[part]);
      if (from < to) copy(part, row * parts.run_bytes[part] + from - run, from, to - from);
      run += parts.run_bytes[part];
    }
  }
}

/// `copy(addresses, part, offset in the part, offset in the whole, bytes)`. The team shares out the bytes of
/// the whole, so that it does not matter which dimension is cut.
template <class Copy>
KernelPtr copy_kernel(const KernelIo& io, PartRows parts, Copy copy) {
  return cpu_kernel(io, [parts = std::move(parts), copy](const Addresses& a) {
    const std::int64_t bytes = parts.rows * parts.row_bytes;
    parallel_ranges(bytes, bytes / static_cast<std::int64_t>(sizeof(float)), cache_line,
                    [&](std::int64_t begin, std::int64_t end) {
                      for_each_run(parts, begin, end, [&](auto... run) { copy(a, run...); });
                    });
  });
}

}  // namespace

KernelPtr prepare(Cpu, const Split& op, const KernelIo& io) {
  return copy_kernel(io, PartRows(op.dim, io.inputs[Split::x], io.outputs),
                     [](const Addresses& a, std::size_t part, std::int64_t in_part, std::int64_t in_whole,
                        std::int64_t bytes) {
                       std::memcpy(a.out<char>(part) + in_part, a.in<char>(Split::x) + in_whole,
                                   static_cast<std::size_t>(bytes));
                     });
}

KernelPtr prepare(Cpu, const Concat& op, const KernelIo& io) {
  return copy_kernel(io, PartRows(op.dim, io.outputs[Concat::y], io.inputs),
                     [](const Addresses& a, std::size_t part, std::int64_t in_part, std::int64_t in_whole,
                        std::int64_t bytes) {
                       std::memcpy(a.out<char>(Concat::y) + in_whole, a.in<char>(part) + in_part,
                                   static_cast<std::size_t>(bytes));
                     });
}

}  // namespace lockstep::kernels
