#pragma once

#include <cstdint>

#include "model/model.h"

// What the graphs that a model is built to have in common.
namespace lockstep::model {

Shape with_batch(std::int64_t batch_size, const Shape& sample);

/// UsageError where the model has no `forward`, or gives a tensor of another graph.
Tensor run_forward(const Model& model, Tensor x);

/// Before a kernel is prepared for it, or memory allocated: UsageError names model and value.
void require_addressable(const Model& model, const Graph& graph);

}  // namespace lockstep::model
