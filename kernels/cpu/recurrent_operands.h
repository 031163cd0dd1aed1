#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/base/half.h"
#include "kernels/cpu/parallel.h"
#include "kernels/kernel.h"
#include "kernels/recurrent.h"

/// The tensors of a launch as the SIMD kernels take them, and states on their way between types.
namespace lockstep::kernels {

template <class Op>
constexpr bool has_cells = requires {
  Op::cells;
};

/// Numbers of a state of cells, (N, H), if the op has one.
template <class Op>
std::int64_t cells_of(const RecurrentSize& size) {
  return has_cells<Op> ? size.rows * size.hidden : 0;
}

/// `h_row`: from row to row of what the products take.
template <class Op>
RecurrentForward forward_operands(const Addresses& a, float* cells, std::int64_t h_row) {
  RecurrentForward f{};
  f.pre = a.in<void>(Op::pre);
  f.h.row = h_row;
  f.y = a.out<void>(Op::y);
  f.c = cells;
  if constexpr (has_cells<Op>) {
    f.gates = a.out<void>(Op::activations);
    f.cells = a.out(Op::cells);
  }
  return f;
}

template <class Op>
RecurrentBackward backward_operands(const Op& op, const Addresses& a, float* cells, const float* before,
                                    const float* zeros, std::int64_t d_row) {
  RecurrentBackward b{};
  b.dy = a.in<void>(Op::dy);
  b.zeros = op.last ? zeros : nullptr;
  b.d.row = d_row;
  b.dpre = a.out<void>(Op::dpre);
  b.dc = cells;
  b.before = before;
  if constexpr (has_cells<Op>) {
    b.gates = a.in<void>(Op::activations);
    b.cells = a.in(Op::cells);
    b.dcells = a.in(op.dcells());
  } else {
    b.y = a.in<void>(Op::y);
  }
  return b;
}

inline float wide(float from) {
  return from;
}
inline float wide(BFloat16 from) {
  return widen(from);
}
inline void keep(float from, float& to) {
  to = from;
}
inline void keep(float from, BFloat16& to) {
  narrow(from, to);
}

/// A part's units of a state (N, H), zeros for null, into rows `stride` apart.
template <class Element, class To>
void load_state(const RecurrentPart& part, const Element* state, To* to, std::int64_t stride) {
  for (std::int64_t row = 0; row < part.size.rows; ++row) {
    To* const at = to + row * stride + part.first;
    const Element* const from = state == nullptr ? nullptr : state + row * part.size.hidden + part.first;
    for (std::int64_t u = 0; u < part.count; ++u) keep(from == nullptr ? 0.0F : wide(from[u]), at[u]);
  }
}

/// Back; `from` begins with the part's first unit.
template <class Element>
void store_state(const RecurrentPart& part, const float* from, std::int64_t stride, Element* state) {
  for (std::int64_t row = 0; row < part.size.rows; ++row) {
    Element* const to = state + row * part.size.hidden + part.first;
    for (std::int64_t u = 0; u < part.count; ++u) keep(from[row * stride + u], to[u]);
  }
}

}  // namespace lockstep::kernels
