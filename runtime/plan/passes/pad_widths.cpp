#include <algorithm>
#include <array>
#include <initializer_list>
#include <numeric>
#include <vector>

#include "kernels/base/division.h"
#include "kernels/cast.h"
#include "kernels/embedding.h"
#include "kernels/linear_gelu.h"
#include "kernels/loss.h"
#include "kernels/pointwise.h"
#include "kernels/reorder.h"
#include "runtime/plan/passes/passes.h"

namespace lockstep::runtime {
namespace {

using kernels::Layout;
using kernels::Linear;
using kernels::LinearBackwardData;
using kernels::LinearBackwardGelu;
using kernels::LinearBackwardWeights;
using kernels::LinearGelu;
using model::Graph;
using model::no_value;
using model::Node;
using model::Role;
using model::Value;
using model::ValueId;

/// What tensor cores load of a row at once, in a half type; of TF32 it is two loads.
constexpr std::int64_t whole_width = 8;

/// A dimension of a value: the first (of weights their outputs) or the last. A vector's is its first.
enum class Side : std::size_t { rows, columns };
constexpr std::array sides{Side::rows, Side::columns};

std::int64_t extent(const Shape& shape, Side side) {
  return shape[side == Side::rows ? 0 : shape.rank() - 1];
}

/// A product with one column or row is one pass over memory, whatever its width.
bool is_odd(std::int64_t width) {
  return width > 1 && width % whole_width != 0;
}

std::int64_t whole(std::int64_t width) {
  return rounded_up(width, whole_width);
}

/// The dimensions that must have room together, since a kernel takes all of them or none. The rule: such a
/// set gets room where a product by tensor cores reads or writes one of it, and every kernel that reads or
/// writes one takes rows with room behind as they are. What another kernel writes or reads stays as that has
/// it: to copy activations would cost more than the product gains.
class Widths {
 public:
  Widths(Graph& graph, const ParameterLayouts& pinned)
      : graph_(graph),
        set_of_(graph.value_count() * sides.size()),
        is_fixed_(set_of_.size(), false),
        is_wanted_(set_of_.size(), false) {
    std::iota(set_of_.begin(), set_of_.end(), std::size_t{0});
    for (std::size_t id = 0; id < graph.value_count(); ++id) look_at_value(static_cast<ValueId>(id));
    for (const model::Parameter& parameter : graph.parameters()) look_at_parameter(parameter, pinned);
    for (const Node& node : graph.nodes()) look_at_node(node);
  }

  void fix(ValueId id) {
    for (const Side side : sides) fix(id, side);
  }

  void pad() {
    for (std::size_t id = 0; id < graph_.value_count(); ++id) pad(static_cast<ValueId>(id));
    // A copy to another type takes room in or leaves it out, but what follows it is not to be asked for it.
    for (const Node& node : graph_.nodes()) {
      if (node.op->as<kernels::Cast>() == nullptr) continue;
      const Value& from = graph_.value(node.inputs[0]);
      Value& to = graph_.value(node.outputs[0]);
      if (from.role == Role::activation && from.layout && !to.layout)
        to.layout = Layout::row_major(to.type.shape);
    }
  }

 private:
  static std::size_t at(ValueId id, Side side) {
    return static_cast<std::size_t>(id) * sides.size() + static_cast<std::size_t>(side);
  }

  std::size_t root(std::size_t place) {
    while (set_of_[place] != place) place = set_of_[place] = set_of_[set_of_[place]];
    return place;
  }

  void fix(ValueId id, Side side) { is_fixed_[root(at(id, side))] = true; }

  void want(ValueId id, Side side) { is_wanted_[root(at(id, side))] = true; }

  void tie(ValueId a, Side of_a, ValueId b, Side of_b) {
    const std::size_t from = root(at(a, of_a));
    const std::size_t to = root(at(b, of_b));
    is_fixed_[to] = is_fixed_[to] || is_fixed_[from];
    is_wanted_[to] = is_wanted_[to] || is_wanted_[from];
    set_of_[from] = to;
  }

  void look_at_value(ValueId id) {
    const Value& value = graph_.value(id);
    const bool is_free = value.role == Role::activation || value.role == Role::parameter ||
                         value.role == Role::parameter_copy || value.role == Role::gradient;
    if (!is_free || value.layout || value.type.shape.rank() == 0) return fix(id);
    if (value.type.shape.rank() == 1) fix(id, Side::columns);
  }

  void look_at_parameter(const model::Parameter& parameter, const ParameterLayouts& pinned) {
    for (const ValueId other : {parameter.copy, parameter.gradient}) {
      for (const Side side : sides) {
        if (other != no_value) tie(other, side, parameter.value, side);
      }
    }
    const Value& value = graph_.value(parameter.value);
    const auto layout = pinned.find(value.name);
    if (layout == pinned.end()) return;
    for (const Side side : sides) {
      const std::int64_t width = extent(value.type.shape, side);
      if (is_odd(width) && extent(layout->second.padded, side) != whole(width)) fix(parameter.value, side);
    }
  }

  void look_at_node(const Node& node) {
    const auto& in = node.inputs;
    const auto& out = node.outputs;
    if (const auto* op = node.op->as<Linear>()) {
      look_at_product(op->precision, in[Linear::x], in[Linear::w], out[Linear::y]);
      if (in.size() > Linear::b) tie(in[Linear::b], Side::rows, in[Linear::w], Side::rows);
    } else if (const auto* gelu = node.op->as<LinearGelu>()) {
      look_at_product(gelu->precision, in[LinearGelu::x], in[LinearGelu::w], out[LinearGelu::y]);
      if (in.size() > LinearGelu::b) tie(in[LinearGelu::b], Side::rows, in[LinearGelu::w], Side::rows);
      if (out.size() > LinearGelu::pre) tie_all({out[LinearGelu::y], out[LinearGelu::pre]});
    } else if (const auto* data = node.op->as<LinearBackwardData>()) {
      using Op = LinearBackwardData;
      look_at_product(data->precision, out[Op::dx], in[Op::w], in[Op::dy]);
    } else if (const auto* slope = node.op->as<LinearBackwardGelu>()) {
      using Op = LinearBackwardGelu;
      look_at_product(slope->precision, out[Op::dpre], in[Op::w], in[Op::dy]);
      tie_all({in[Op::pre], out[Op::dpre]});
    } else if (const auto* weights = node.op->as<LinearBackwardWeights>()) {
      using Op = LinearBackwardWeights;
      look_at_product(weights->precision, in[Op::x], out[Op::dw], in[Op::dy]);
      if (out.size() > Op::db) tie(out[Op::db], Side::rows, out[Op::dw], Side::rows);
    } else {
      look_at_neighbour(node);
    }
  }

  /// Weights and activations of one product, whichever of them it writes.
  void look_at_product(kernels::MatmulPrecision precision, ValueId x, ValueId w, ValueId y) {
    const bool by_tensor_cores =
        is_half(graph_.value(x).type.dtype) || precision != kernels::MatmulPrecision::highest;
    if (!by_tensor_cores) {
      for (const ValueId id : {x, w, y}) fix(id);
      return;
    }
    fix(x, Side::rows);
    fix(y, Side::rows);
    tie(y, Side::columns, w, Side::rows);
    want(w, Side::rows);
    if (graph_.value(w).type.shape.rank() != 2) {  // rows of pictures lie as their convolutions have them
      fix(x);
      return fix(w, Side::columns);
    }
    tie(x, Side::columns, w, Side::columns);
    want(w, Side::columns);
  }

  void look_at_neighbour(const Node& node) {
    const auto is_any = [&]<class... Ops>() { return ((node.op->as<Ops>() != nullptr) || ...); };
    if (is_any.template operator()<kernels::Cast, kernels::Reorder>()) return;
    if (const auto* chain = node.op->as<kernels::Pointwise>(); chain != nullptr && takes_room(*chain, node)) {
      return tie_all(node.inputs), tie_all(node.outputs), tie_all({node.inputs[0], node.outputs[0]});
    }
    if (is_any.template operator()<kernels::SoftmaxCrossEntropy, kernels::MeanSquaredError>()) {
      return look_at_loss(node);
    }
    if (node.op->as<kernels::Embedding>() != nullptr) {
      fix(node.inputs[kernels::Embedding::weight], Side::columns);
      return fix(node.outputs[0]);
    }
    if (node.op->as<kernels::EmbeddingBackward>() != nullptr) {
      using Op = kernels::EmbeddingBackward;
      fix(node.inputs[Op::dy]);
      fix(node.outputs[Op::dweight], Side::columns);
      if (node.inputs.size() > Op::sum) tie_all({node.inputs[Op::sum], node.outputs[Op::dweight]});
      return;
    }
    for (const auto* ids : {&node.inputs, &node.outputs}) {
      for (const ValueId id : *ids) fix(id);
    }
  }

  /// Targets lie as they come; predictions and their gradient may have rows with room, each as it likes.
  void look_at_loss(const Node& node) {
    for (const auto* ids : {&node.inputs, &node.outputs}) {
      for (const ValueId id : *ids) {
        const bool by_features =
            node.op->as<kernels::MeanSquaredError>() != nullptr && graph_.value(id).type.shape.rank() != 2;
        by_features ? fix(id) : fix(id, Side::rows);
      }
    }
  }

  bool takes_room(const kernels::Pointwise& chain, const Node& node) const {
    const Shape& full = graph_.value(node.outputs[0]).type.shape;
    return chain.keeps_zero() &&
           std::ranges::all_of(node.inputs, [&](ValueId id) { return graph_.value(id).type.shape == full; });
  }

  template <class Ids = std::initializer_list<ValueId>>
  void tie_all(const Ids& ids) {
    for (const ValueId id : ids) {
      for (const Side side : sides) tie(id, side, *std::begin(ids), side);
    }
  }

  void pad(ValueId id) {
    Value& value = graph_.value(id);
    const Shape& shape = value.type.shape;
    // Gradients and weights for pictures have it from parameters and results
    // (kernels/cuda/linear_operands.h).
    if (shape.rank() == 0 || value.layout || value.role == Role::gradient) return;
    Shape padded = shape;
    for (const Side side : sides) {
      const std::size_t set = root(at(id, side));
      std::int64_t& width = padded[side == Side::rows ? 0 : shape.rank() - 1];
      if (is_wanted_[set] && !is_fixed_[set] && is_odd(width)) width = whole(width);
    }
    const bool is_of_pictures = shape.rank() > 2 && padded[0] != shape[0];
    if (padded != shape && !is_of_pictures) value.layout = Layout::row_major(padded);
  }

  Graph& graph_;
  std::vector<std::size_t> set_of_;  ///< by value and side: another member of its set, its root in the end
  std::vector<bool> is_fixed_, is_wanted_;  ///< by root
};

}  // namespace

void pad_widths(Graph& graph, const ParameterLayouts& pinned, bool keeps_output) {
  Widths widths(graph, pinned);
  if (keeps_output && graph.output != no_value) widths.fix(graph.output);
  widths.pad();
}

}  // namespace lockstep::runtime
