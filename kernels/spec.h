#pragma once

#include <variant>

#include "kernels/begin_step.h"
#include "kernels/conv2d.h"
#include "kernels/elementwise.h"
#include "kernels/gradient_norm.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/optimizer.h"
#include "kernels/pool2d.h"
#include "kernels/reorder.h"

namespace lockstep::kernels {

/// Every kernel that a device has: how a description of any op crosses the border to a backend that is loaded
/// at run time. A new op adds its descriptions here.
struct KernelSpec
    : std::variant<Add, AdamUpdate, AvgPool2dBackward, AvgPool2dForward, BeginStep, Conv2dBackwardData,
                   Conv2dBackwardWeights, Conv2dForward, GradientNorm, LinearBackwardData,
                   LinearBackwardWeights, LinearForward, MaxPool2dBackward, MaxPool2dForward,
                   MeanSquaredError, MeanSquaredErrorEval, ReluBackward, ReluForward, Reorder, SgdUpdate,
                   SoftmaxCrossEntropy, SoftmaxCrossEntropyEval> {
  using variant::variant;
};

}  // namespace lockstep::kernels
