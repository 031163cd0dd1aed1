#include "kernels/position_encoding.h"

#include "kernels/fill.h"
#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::PositionEncoding;

void differentiate(const PositionEncoding&, Backward& backward) {
  backward.contribute(PositionEncoding::x, backward.output_gradient());
}

/// Rows for each position that a sequence which grows can have.
Tensor table_of_positions(Graph& graph, std::int64_t columns) {
  const Shape shape{graph.decoding->capacity, columns};
  const std::string layer(PositionEncoding::name);
  const Tensor zeros(graph,
                     graph.add_node(make_op(kernels::Fill{}), {}, {{DType::f32, shape}}, layer).front());
  return once_for_source(apply(graph, PositionEncoding{}, differentiate, {zeros}, layer));
}

}  // namespace

Tensor position_encoding(Tensor x) {
  Graph& graph = x.graph();
  if (graph.decodes()) {
    return add(x, rows_of_positions(x, table_of_positions(graph, x.shape()[x.shape().rank() - 1])));
  }
  return apply(x.graph(), PositionEncoding{}, differentiate, {x}, std::string(PositionEncoding::name));
}

}  // namespace lockstep::model
