#pragma once

#include "kernels/classifier.h"
#include "kernels/device.h"
#include "tests/bench/limits/onednn_product.h"

/// Products inside kernels that do more, as these compute them.
namespace lockstep::bench {

enum class StepDirection { forward, backward };

/// Seconds of the product of one step of a recurrent layer with `states` (T, N, H), its weights packed.
double seconds_of_step_product(const kernels::TensorDesc& states, std::int64_t gates, StepDirection direction,
                               kernels::Device& device);

/// Seconds of all blocks of one of the classifier's three products, of factors of `dtype`.
double seconds_of_classifier_product(const kernels::ClassifierLoss& op, const kernels::MatmulSize& size,
                                     DType dtype, Product::Result result, kernels::Device& device);

}  // namespace lockstep::bench
