#include "kernels/split.h"

#include "kernels/base/error.h"
#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::Concat;
using kernels::Split;

void differentiate(const Split& op, Backward& backward) {
  std::vector<ValueId> parts;
  for (std::size_t i = 0; i < op.sizes.size(); ++i) parts.push_back(backward.output_gradient(i));
  backward.add_gradients(Concat{op.dim}, parts, {Split::x});
}

void differentiate(const Concat& op, Backward& backward) {
  Split back{.sizes = {}, .dim = op.dim};
  std::vector<std::size_t> parts;
  for (std::size_t i = 0; backward.has_input(i); ++i) {
    const Shape& part = backward.type(backward.input(i)).shape;
    back.sizes.push_back(part[kernels::axis_of(op.dim, part)]);
    parts.push_back(i);
  }
  backward.add_gradients(back, {backward.output_gradient()}, parts);
}

}  // namespace

std::vector<Tensor> split(Tensor x, std::vector<std::int64_t> sizes, std::int64_t dim) {
  return apply_all<Split>(x.graph(), {.sizes = std::move(sizes), .dim = dim}, differentiate, {x}, "split");
}

Tensor concat(std::vector<Tensor> parts, std::int64_t dim) {
  if (parts.empty()) throw UsageError("concat: at least one tensor wanted");
  return apply<Concat>(parts.front().graph(), {.dim = dim}, differentiate, parts, "concat");
}

}  // namespace lockstep::model
