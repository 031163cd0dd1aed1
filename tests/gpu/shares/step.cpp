#include "tests/gpu/shares/step.h"

#include <algorithm>

#include <fmt/format.h>

#include "tests/gpu/shares/timing.h"

namespace lockstep::shares {
namespace {

using namespace kernels;

KernelTime time_node(const runtime::Plan& plan, std::size_t at, Device& device, const StepState& state) {
  const model::Node& node = plan.graph.nodes()[at];
  const KernelIo io = plan.graph.io(node);
  return {.name = fmt::format("{} {}", node.layer, node.op->name()),
          .seconds = seconds_of_launch(device, *plan.kernels[at], io, state),
          .flops = node.op->flops(plan.graph.types(node.inputs), plan.graph.types(node.outputs)),
          .bytes = bytes_of(io)};
}

/// Reads gradient, parameters and state, and writes the latter two.
KernelTime time_update(const runtime::Options& options, const runtime::Plan& plan, std::size_t at,
                       Device& device, const StepState& state) {
  const runtime::Bucket& bucket = plan.arena.buckets[at];
  const std::size_t end = std::min(bucket.offset + bucket.bytes, plan.arena.parameter_bytes);
  const auto elements = static_cast<std::int64_t>((end - bucket.offset) / sizeof(float));
  const std::size_t states = model::state_names(options.optimizer).size();
  const TensorDesc slice{DType::f32, {elements}, {}};
  const model::ValueType step_state = kernels::step_state_type();
  KernelIo io{{slice, {step_state.dtype, step_state.shape, {}}}, {slice}};
  io.outputs.insert(io.outputs.end(), states, slice);
  const auto kernel = model::prepare_update(device, options.optimizer, elements);
  return {.name = fmt::format("update of bucket {}", at),
          .seconds = seconds_of_launch(device, *kernel, io, state),
          .bytes = static_cast<double>(3 + 2 * states) * static_cast<double>(slice.bytes())};
}

}  // namespace

std::vector<KernelTime> time_step(const runtime::Options& options, const runtime::Plan& plan,
                                  Device& device) {
  StepState state{.loss_scale = 1.0F / static_cast<float>(plan.request.batch_size),
                  .valid_samples = static_cast<std::int32_t>(plan.request.batch_size)};
  model::set_step(options.optimizer, 1, state);
  std::vector<KernelTime> times;
  for (std::size_t at = 0; at < plan.kernels.size(); ++at) {
    if (plan.kernels[at] != nullptr) times.push_back(time_node(plan, at, device, state));
  }
  for (std::size_t at = 0; at < plan.arena.buckets.size(); ++at) {
    times.push_back(time_update(options, plan, at, device, state));
  }
  return times;
}

}  // namespace lockstep::shares
