#pragma once

#include "tests/ops/conformance.h"

namespace lockstep::ops {

/// y, and where dy was given the gradients of inputs and parameters; none of tokens.
struct LayerResult {
  Values y;
  std::vector<Values> gradients;
};

/// A layer and its backward nodes, differentiated as a training step is and run node by node. Nodes that
/// change buffers are left out.
class LayerRun {
 public:
  using Layer = std::function<Tensor(const std::vector<Tensor>&)>;

  /// `fuse`: with the passes that let a batch norm take up what follows it, and a layer norm its residual.
  LayerRun(const Layer& layer, const std::vector<Shape>& inputs, DType dtype, bool fuse = true)
      : LayerRun(layer, types_of(inputs, dtype), fuse) {}
  /// Inputs of several types: i64 are tokens.
  LayerRun(const Layer& layer, const kernels::Types& inputs, bool fuse = true);

  /// Of inputs, then parameters.
  std::vector<Shape> operand_shapes() const;
  const Shape& output_shape() const;
  std::size_t node_count() const { return graph_.nodes().size(); }

  LayerResult run(const std::vector<Values>& operands, const Values& dy);

 private:
  static kernels::Types types_of(const std::vector<Shape>& shapes, DType dtype);
  void differentiate();
  /// As gradients of parameters have it.
  void keep_in_memory_of_its_own(model::ValueId read_at_the_end);

  model::Graph graph_;
  std::vector<model::ValueId> operands_;
  model::ValueId y_ = model::no_value;
  model::ValueId dy_ = model::no_value;
  std::vector<model::ValueId> gradients_;  ///< by value
};

}  // namespace lockstep::ops
