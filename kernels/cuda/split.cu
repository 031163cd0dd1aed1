#include "kernels/split.h"

#include "kernels/cuda/portability.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

constexpr int parts_at_once = 4;  // that a launch takes

/// Where parts lie in each row of the whole, in units of a copy. By themselves they have no gaps.
template <class Index>
struct Places {
  Index length[parts_at_once];
  Index first[parts_at_once];
};

template <class Unit>
struct SplitOperands {
  const Unit* whole;
  Unit* parts[parts_at_once];

  __device__ void copy(Unit* part, std::int64_t in_part, std::int64_t in_whole) const {
    part[in_part] = whole[in_whole];
  }
};
template <class Unit>
struct ConcatOperands {
  Unit* whole;
  const Unit* parts[parts_at_once];

  __device__ void copy(const Unit* part, std::int64_t in_part, std::int64_t in_whole) const {
    whole[in_whole] = part[in_part];
  }
};

/// of[part], out of registers.
template <class Value>
__device__ Value chosen(const Value (&of)[parts_at_once], unsigned part) {
  Value value = of[0];
  LOCKSTEP_UNROLL
  for (unsigned other = 1; other < parts_at_once; ++other) value = part == other ? of[other] : value;
  return value;
}

/// blockIdx.y names the part.
template <class Index, class Operands>
__global__ void copy_parts(std::int64_t rows, Index stride, Places<Index> places, Operands operands) {
  const Index length = chosen(places.length, blockIdx.y);
  const Index first = chosen(places.first, blockIdx.y);
  const auto part = chosen(operands.parts, blockIdx.y);
  const std::int64_t items = rows * static_cast<std::int64_t>(length);
  for (std::int64_t item = first_item(); item < items; item += item_stride()) {
    const Index row = static_cast<Index>(item) / length;
    const Index at = static_cast<Index>(item) - row * length;
    operands.copy(part, item, first + row * stride + at);
  }
}

/// What a launch takes.
template <class Index>
struct Group {
  std::size_t begin;
  unsigned count;
  Places<Index> places;
  Spread spread;
};

template <class Unit, class Index>
std::vector<Group<Index>> groups_of(const PartRows& rows) {
  std::vector<Group<Index>> groups;
  std::int64_t first = 0;
  for (std::size_t begin = 0; begin < rows.run_bytes.size(); begin += parts_at_once) {
    const std::size_t count = std::min<std::size_t>(parts_at_once, rows.run_bytes.size() - begin);
    Group<Index> group{.begin = begin, .count = static_cast<unsigned>(count), .places = {}, .spread = {}};
    std::int64_t longest = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t length = rows.run_bytes[begin + i] / static_cast<std::int64_t>(sizeof(Unit));
      group.places.length[i] = static_cast<Index>(length);
      group.places.first[i] = static_cast<Index>(first);
      first += length;
      longest = std::max(longest, length);
    }
    group.spread = spread(rows.rows * longest);
    if (rows.rows * longest > 0) groups.push_back(group);
  }
  return groups;
}

template <class Op, class Unit, class Index>
KernelPtr copy_kernel(const KernelIo& io, const PartRows& rows) {
  const auto stride = static_cast<Index>(rows.row_bytes / static_cast<std::int64_t>(sizeof(Unit)));
  const auto run = [count = rows.rows, stride, groups = groups_of<Unit, Index>(rows)](const Addresses& a,
                                                                                      cudaStream_t stream) {
    for (const Group<Index>& group : groups) {
      const auto copy = [&](const auto& operands) {
        launch(copy_parts<Index, std::remove_cvref_t<decltype(operands)>>,
               dim3(group.spread.blocks, group.count), group.spread.threads, 0, stream, count, stride,
               group.places, operands);
      };
      if constexpr (std::is_same_v<Op, Split>) {
        SplitOperands<Unit> operands{a.in<Unit>(Split::x), {}};
        for (unsigned i = 0; i < group.count; ++i) operands.parts[i] = a.out<Unit>(group.begin + i);
        copy(operands);
      } else {
        ConcatOperands<Unit> operands{a.out<Unit>(Concat::y), {}};
        for (unsigned i = 0; i < group.count; ++i) operands.parts[i] = a.in<Unit>(group.begin + i);
        copy(operands);
      }
    }
  };
  return cuda_kernel(io, run);
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
