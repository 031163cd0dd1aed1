#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "comm/communicator.h"

namespace lockstep::comm::testing {

/// In which order a backend adds: in the tree over ranks, rank by rank (rounding each partial sum), or in one
/// that is its library's affair, so that only sums without rounding are known.
enum class SumOrder { tree, by_rank, unknown };

/// A rank of the backend under test, and how the test reaches its arenas.
struct Backend {
  Communicator& group;
  kernels::Stream& stream;
  SumOrder order = SumOrder::tree;
  /// All bytes of an arena.
  std::function<void(const Arena&, std::span<const std::byte>)> write;
  std::function<void(const Arena&, std::span<std::byte>)> read;
};

/// One whose arenas are on the host.
Backend host_backend(Communicator& group, kernels::Stream& stream, SumOrder order = SumOrder::tree);

/// Makes all_reduce, reduce_scatter and all_gather over ranges of many sizes in the middle of an arena, in
/// f32, bf16 and f16, and looks at every element of the arena; and an all_gather of a long text. By all ranks
/// alike. std::runtime_error names the collective, type, size and first wrong element.
void check_conformance(const Backend& backend);

}  // namespace lockstep::comm::testing
