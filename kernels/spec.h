#pragma once

#include <variant>

#include "kernels/op_headers.h"  // made by CMake: the headers that ops.def names

namespace lockstep::kernels {

namespace detail {

struct NoOp {};

/// The variant without its first, which only makes room for the commas of the list.
template <class First, class... Rest>
std::variant<Rest...> without_first(std::variant<First, Rest...>);

using AnyOp = decltype(without_first(std::declval<std::variant<NoOp
#define LOCKSTEP_OP(Op, header) , Op
#include "kernels/ops.def"
                                                               >>()));

}  // namespace detail

/// The description of any op: how one crosses the border to a backend that is loaded at run time.
struct KernelSpec : detail::AnyOp {
  using variant::variant;
};

}  // namespace lockstep::kernels
