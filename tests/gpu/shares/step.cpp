#include "tests/gpu/shares/step.h"

#include "runtime/plan/print.h"
#include "tests/gpu/shares/timing.h"

namespace lockstep::shares {
namespace {

using namespace kernels;

double flops_of(const runtime::Plan& plan, const runtime::Step& step) {
  if (step.kind != runtime::Step::Kind::launch) return 0;
  const model::Node& node = plan.graph.nodes()[step.index];
  return node.op->flops(plan.graph.types(node.inputs), plan.graph.types(node.outputs));
}

/// An update reads parameters and state, too, but not the copy in a half type.
double moved_bytes(const runtime::Launch& launch, bool is_update) {
  const double bytes = bytes_of(launch.io);
  if (!is_update) return bytes;
  KernelIo also_read{.inputs = launch.io.outputs, .outputs = {}};
  std::erase_if(also_read.inputs, [](const TensorDesc& tensor) { return is_half(tensor.dtype); });
  return bytes + bytes_of(also_read);
}

}  // namespace

std::vector<KernelTime> time_step(const runtime::Plan& plan, Device& device) {
  const StepState state{.step = 1,
                        .learning_rate = plan.request.optimizer.learning_rate,
                        .loss_scale = 1.0F / static_cast<float>(plan.key().batch),
                        .valid_samples = static_cast<std::int32_t>(plan.key().batch)};
  std::vector<KernelTime> times;
  for (const runtime::Step& step : plan.steps) {
    const bool is_update = step.kind == runtime::Step::Kind::update;
    if (!is_update && step.kind != runtime::Step::Kind::launch) continue;
    const runtime::Launch& launch = *plan.launch_of(step);
    if (launch.kernel == nullptr) continue;
    times.push_back({.name = label_of(plan, step),
                     .seconds = seconds_of_launch(device, *launch.kernel, launch.io, state),
                     .flops = flops_of(plan, step),
                     .bytes = moved_bytes(launch, is_update)});
  }
  return times;
}

}  // namespace lockstep::shares
