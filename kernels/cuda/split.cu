#include "kernels/split.h"

#include "kernels/cuda/portability.h"

#include <limits>
#include <numeric>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

/// A run in each row of a tensor, in units of a copy.
template <class Index>
struct Runs {
  Index first, stride;
};

template <class Unit, class Index>
__global__ void copy_runs(Index length, Runs<Index> in, Runs<Index> out, std::int64_t items, const Unit* x,
                          Unit* y) {
  for (std::int64_t item = first_item(); item < items; item += item_stride()) {
    const Index row = static_cast<Index>(item) / length;
    const Index at = static_cast<Index>(item) - row * length;
    y[out.first + row * out.stride + at] = x[in.first + row * in.stride + at];
  }
}

/// What one part has to do with the whole.
template <class Index>
struct Part {
  Index length;
  Runs<Index> own, whole;
  std::int64_t items;
  Spread spread;
};

template <class Unit, class Index>
std::vector<Part<Index>> parts_of(const PartRows& rows) {
  const auto units = [](std::int64_t bytes) {
    return static_cast<Index>(bytes / static_cast<std::int64_t>(sizeof(Unit)));
  };
  std::vector<Part<Index>> parts;
  std::int64_t first = 0;
  for (const std::int64_t run : rows.run_bytes) {
    const std::int64_t items = rows.rows * static_cast<std::int64_t>(units(run));
    parts.push_back({.length = units(run),
                     .own = {0, units(run)},
                     .whole = {units(first), units(rows.row_bytes)},
                     .items = items,
                     .spread = spread(items)});
    first += run;
  }
  return parts;
}

/// A launch for each part: every tensor is a pointer of its own.
template <class Op, class Unit, class Index>
KernelPtr copy_kernel(const KernelIo& io, const PartRows& rows) {
  return cuda_kernel(io, [parts = parts_of<Unit, Index>(rows)](const Addresses& a, cudaStream_t stream) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Part<Index>& part = parts[i];
      if (part.items == 0) continue;
      const auto copy = [&](Runs<Index> in, Runs<Index> out, const Unit* x, Unit* y) {
        launch(copy_runs<Unit, Index>, part.spread.blocks, part.spread.threads, 0, stream, part.length, in,
               out, part.items, x, y);
      };
      if constexpr (std::is_same_v<Op, Split>) {
        copy(part.whole, part.own, a.in<Unit>(Split::x), a.out<Unit>(i));
      } else {
        copy(part.own, part.whole, a.in<Unit>(i), a.out<Unit>(Concat::y));
      }
    }
  });
}

/// A GPU divides long numbers slowly.
template <class Op, class Unit>
KernelPtr copy_kernel(const KernelIo& io, const PartRows& rows) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  return rows.rows * rows.row_bytes / static_cast<std::int64_t>(sizeof(Unit)) <= most
             ? copy_kernel<Op, Unit, std::uint32_t>(io, rows)
             : copy_kernel<Op, Unit, std::uint64_t>(io, rows);
}

/// In the largest units that every run is made of, up to 16 bytes.
template <class Op>
KernelPtr copy_kernel(const KernelIo& io, const PartRows& rows) {
  std::int64_t unit = sizeof(Four<std::uint32_t>);
  unit = std::gcd(unit, rows.row_bytes);
  for (const std::int64_t run : rows.run_bytes) unit = std::gcd(unit, run);
  switch (unit) {
    case 1:
      return copy_kernel<Op, std::uint8_t>(io, rows);
    case 2:
      return copy_kernel<Op, std::uint16_t>(io, rows);
    case 4:
      return copy_kernel<Op, std::uint32_t>(io, rows);
    case 8:
      return copy_kernel<Op, std::uint64_t>(io, rows);
    default:
      return copy_kernel<Op, Four<std::uint32_t>>(io, rows);
  }
}

}  // namespace

KernelPtr prepare(Cuda, const Split& op, const KernelIo& io) {
  return copy_kernel<Split>(io, PartRows(op.dim, io.inputs[Split::x], io.outputs));
}

KernelPtr prepare(Cuda, const Concat& op, const KernelIo& io) {
  return copy_kernel<Concat>(io, PartRows(op.dim, io.outputs[Concat::y], io.inputs));
}

}  // namespace lockstep::kernels
