#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/begin_step.h"
#include "kernels/device.h"
#include "kernels/kernel.h"
#include "kernels/optimizer.h"

namespace lockstep::model {

enum class OptimizerKind { sgd, adam, adamw };

/// What users call them, and `describe`.
inline constexpr std::pair<OptimizerKind, std::string_view> optimizer_kinds[] = {
    {OptimizerKind::sgd, "sgd"}, {OptimizerKind::adam, "adam"}, {OptimizerKind::adamw, "adamw"}};

/// PyTorch's optimizers and defaults.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adam;
  double learning_rate = 1e-3;  ///< the base, to which BeginStep applies the schedule
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  bool amsgrad = false;
  double clip_value = kernels::not_clipped;  ///< of each averaged gradient, before anything else
  bool decays_vectors = true;  ///< false: weight decay only of parameters with 2 dimensions or more
  kernels::LearningRateSchedule schedule;
};

/// Names of the state tensors kept per parameter, as in PyTorch's state_dict.
std::vector<std::string> state_names(const OptimizerOptions& options);

/// "adam lr=0.001 ...": part of what all ranks must agree on.
std::string describe(const OptimizerOptions& options);

/// What the update of `elements` consecutive parameters works on: inputs gradient, step state; outputs
/// parameter, states and, where `copies` is a half type, a copy of the parameters in it.
kernels::KernelIo update_io(const OptimizerOptions& options, std::int64_t elements, DType gradients,
                            DType copies = DType::f32);

/// What updates a parameter: the options as PyTorch's arithmetic takes them.
kernels::SgdUpdate sgd_update(const OptimizerOptions& options);
kernels::AdamUpdate adam_update(const OptimizerOptions& options);

/// With weight decay on the first `decayed` elements.
kernels::KernelPtr update_kernel(const kernels::Device& device, const OptimizerOptions& options,
                                 const kernels::KernelIo& io, std::int64_t decayed);

/// What begins a step that ends with these updates.
kernels::BeginStep begin_step(const OptimizerOptions& options);

}  // namespace lockstep::model
