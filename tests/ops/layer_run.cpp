#include "tests/ops/layer_run.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "kernels/base/half.h"
#include "kernels/step_state.h"
#include "model/define_op.h"
#include "runtime/plan/passes/passes.h"

namespace lockstep::ops {
namespace {

using kernels::TensorDesc;
using kernels::test::device;
using model::ValueId;

std::size_t at(ValueId id) {
  return static_cast<std::size_t>(id);
}

/// f32 bits to those of `dtype` and back, element by element, padding included.
template <class Half>
std::unique_ptr<kernels::Memory> narrowed(const kernels::Memory& from) {
  const auto floats = kernels::test::download<float>(from);
  std::vector<Half> halves(floats.size());
  for (std::size_t i = 0; i < floats.size(); ++i) narrow(floats[i], halves[i]);
  return kernels::test::upload(halves);
}

template <class Half>
std::unique_ptr<kernels::Memory> widened(const kernels::Memory& from) {
  const auto halves = kernels::test::download<Half>(from);
  std::vector<float> floats(halves.size());
  for (std::size_t i = 0; i < halves.size(); ++i) floats[i] = widen(halves[i]);
  return kernels::test::upload(floats);
}

std::unique_ptr<kernels::Memory> upload(const Values& values, const TensorDesc& desc) {
  if (desc.dtype == DType::i64) {
    return kernels::test::upload(std::vector<std::int64_t>(values.data.begin(), values.data.end()));
  }
  auto floats = kernels::test::pack(values, desc.layout_or_row_major());
  if (desc.dtype == DType::bf16) return narrowed<BFloat16>(*floats);
  if (desc.dtype == DType::f16) return narrowed<Float16>(*floats);
  return floats;
}

Values download(const kernels::Memory& memory, const TensorDesc& desc) {
  const kernels::Layout layout = desc.layout_or_row_major();
  if (desc.dtype == DType::bf16) return kernels::test::unpack(*widened<BFloat16>(memory), desc.shape, layout);
  if (desc.dtype == DType::f16) return kernels::test::unpack(*widened<Float16>(memory), desc.shape, layout);
  return kernels::test::unpack(memory, desc.shape, layout);
}

TensorDesc described(const model::Value& value) {
  return {value.type.dtype, value.type.shape, value.layout};
}

/// Memory for each value; a view lies in that of its input.
class Memories {
 public:
  explicit Memories(const model::Graph& graph) : graph_(graph) {}

  void put(ValueId id, std::unique_ptr<kernels::Memory> memory) { memory_[id] = std::move(memory); }
  void alias(ValueId view, ValueId of, std::size_t offset) {
    offset_[view] = offset_[of] + offset;
    root_[view] = root(of);
  }

  const kernels::Memory& of(ValueId id) {
    auto& memory = memory_[root(id)];
    if (memory == nullptr)
      memory = device().allocate(std::max<std::size_t>(described(graph_.value(id)).bytes(), 64));
    return *memory;
  }
  void* address(ValueId id) { return static_cast<std::byte*>(of(id).data()) + offset_[id]; }

 private:
  ValueId root(ValueId id) const {
    const auto found = root_.find(id);
    return found == root_.end() ? id : found->second;
  }

  const model::Graph& graph_;
  std::map<ValueId, std::unique_ptr<kernels::Memory>> memory_;
  std::map<ValueId, ValueId> root_;
  std::map<ValueId, std::size_t> offset_;  ///< bytes from its root's beginning
};

void launch(const model::Graph& graph, const model::Node& node, Memories& memories) {
  if (node.op->is_view()) {
    const DType dtype = graph.value(node.inputs[0]).type.dtype;
    return memories.alias(node.outputs[0], node.inputs[0], node.op->view_offset(dtype));
  }
  const auto kernel = node.op->kernel(device(), graph.io(node));
  std::vector<void*> args;
  for (const auto* ids : {&node.inputs, &node.outputs}) {
    for (const ValueId id : *ids) args.push_back(memories.address(id));
  }
  const auto workspace = device().allocate(std::max<std::size_t>(kernel->workspace_bytes(), 64));
  const auto stream = device().make_stream();
  kernel->bind(args, workspace->data())->launch(*stream);
  stream->synchronize();
}

}  // namespace

kernels::Types LayerRun::types_of(const std::vector<Shape>& shapes, DType dtype) {
  kernels::Types types;
  for (const Shape& shape : shapes) types.push_back({dtype, shape});
  return types;
}

LayerRun::LayerRun(const Layer& layer, const kernels::Types& inputs, bool fuse) {
  graph_.training = true;
  std::vector<Tensor> tensors;
  for (const kernels::TensorType& type : inputs) {
    operands_.push_back(graph_.add_value("input", type, model::Role::input));
    tensors.emplace_back(graph_, operands_.back());
  }
  y_ = layer(tensors).id();
  std::erase_if(graph_.nodes(), [&](const model::Node& node) { return graph_.is_update(node); });
  if (fuse) runtime::fuse_batch_norm(graph_);
  if (fuse) runtime::fuse_layer_norm(graph_, false);
  for (const model::Parameter& parameter : graph_.parameters()) operands_.push_back(parameter.value);
  dy_ = graph_.add_value("dy", graph_.value(y_).type, model::Role::input);
  differentiate();
  keep_in_memory_of_its_own(y_);
  for (const ValueId operand : operands_) keep_in_memory_of_its_own(gradients_[at(operand)]);
  runtime::view_splits(graph_);
  runtime::assign_layouts(graph_, device(), {});
}

void LayerRun::differentiate() {
  const std::vector<bool> all(graph_.value_count(), true);
  gradients_.assign(graph_.value_count(), model::no_value);
  gradients_[at(y_)] = dy_;
  for (std::size_t i = graph_.nodes().size(); i-- > 0;) {
    const model::Node node = graph_.nodes()[i];  // a copy: the graph grows meanwhile
    model::Backward backward(graph_, node, gradients_, all);
    node.op->differentiate(backward);
  }
}

void LayerRun::keep_in_memory_of_its_own(ValueId read_at_the_end) {
  if (read_at_the_end == model::no_value) return;
  model::Value& value = graph_.value(read_at_the_end);
  if (value.role == model::Role::activation) value.role = model::Role::gradient;
}

std::vector<Shape> LayerRun::operand_shapes() const {
  std::vector<Shape> shapes;
  for (const ValueId id : operands_) shapes.push_back(graph_.value(id).type.shape);
  return shapes;
}

const Shape& LayerRun::output_shape() const {
  return graph_.value(y_).type.shape;
}

LayerResult LayerRun::run(const std::vector<Values>& operands, const Values& dy) {
  Memories memories(graph_);
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    memories.put(operands_[i], upload(operands[i], described(graph_.value(operands_[i]))));
  }
  memories.put(dy_, upload(dy, described(graph_.value(dy_))));
  if (const ValueId state = graph_.find(model::Role::step_state); state != model::no_value) {
    const kernels::StepState step{.seed = 7, .global_step = 3, .first_sample = 5, .sample_stride = 2};
    memories.put(state, kernels::test::upload(std::vector{step}));
  }
  for (const model::Node& node : graph_.nodes()) launch(graph_, node, memories);
  const auto values_of = [&](ValueId id) {
    return id == model::no_value ? Values{} : download(memories.of(id), described(graph_.value(id)));
  };
  LayerResult result{.y = values_of(y_), .gradients = {}};
  for (const ValueId id : operands_) result.gradients.push_back(values_of(gradients_[at(id)]));
  return result;
}

}  // namespace lockstep::ops
