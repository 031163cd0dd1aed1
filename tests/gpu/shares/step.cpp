#include "tests/gpu/shares/step.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "kernels/classifier.h"
#include "kernels/embedding.h"
#include "kernels/loss.h"
#include "kernels/recurrent.h"
#include "kernels/row_list.h"
#include "kernels/sequence.h"
#include "runtime/plan/algorithms.h"
#include "runtime/plan/print.h"

namespace lockstep::shares {
namespace {

using namespace kernels;

/// Of the rows of a node that is told their lengths.
std::optional<std::int64_t> steps_of(const model::Op& op, const KernelIo& io) {
  if (op.as<Rnn>()) return io.outputs[Rnn::y].shape[0];
  if (op.as<Lstm>()) return io.outputs[Lstm::y].shape[0];
  if (op.as<RnnBackward>()) return io.outputs[RnnBackward::dpre].shape[0];
  if (op.as<LstmBackward>()) return io.outputs[LstmBackward::dpre].shape[0];
  if (op.as<LastStep>()) return io.inputs[LastStep::x].shape[0];
  if (op.as<LastStepBackward>()) return io.outputs[LastStepBackward::dx].shape[0];
  return std::nullopt;
}

/// The node's tokens, lengths or targets: whole rows, any token and any class.
Contents contents_of(const model::Node& node, const KernelIo& io, const StepState& state) {
  const auto below = [&](std::int64_t count) {
    return Contents{state, 0, std::max<std::int64_t>(count, 1) - 1};
  };
  const auto& op = *node.op;
  if (const auto steps = steps_of(op, io)) return {state, *steps, *steps};
  if (op.as<Embedding>()) return below(io.inputs[Embedding::weight].shape[0]);
  if (op.as<EmbeddingBackward>()) return below(io.outputs[EmbeddingBackward::dweight].shape[0]);
  if (const auto* const rows = op.as<EmbeddingRows>()) return below(rows->vocab);
  if (op.as<ClassifierLoss>()) return below(io.inputs[ClassifierLoss::weight].shape[0]);
  if (op.as<SoftmaxCrossEntropy>()) {
    const Shape& logits = io.inputs[SoftmaxCrossEntropy::predictions].shape;
    return below(logits[logits.rank() - 1]);
  }
  return {state};
}

void add(KernelTime& sum, const KernelTime& kernel) {
  sum.count += kernel.count;
  sum.seconds += kernel.seconds;
  sum.flops += kernel.flops;
  sum.bytes += kernel.bytes;
  sum.limit_seconds += kernel.limit_seconds;
}

}  // namespace

std::vector<StepKernel> kernels_of(const runtime::Plan& plan) {
  const StepState state{.step = 1,
                        .learning_rate = plan.request.optimizer.learning_rate,
                        .loss_scale = 1.0F / static_cast<float>(plan.key().batch),
                        .valid_samples = static_cast<std::int32_t>(plan.key().batch)};
  std::vector<StepKernel> found;
  for (const runtime::Step& step : plan.steps) {
    const runtime::Launch* const launch = plan.launch_of(step);
    if (launch == nullptr || launch->kernel == nullptr) continue;
    StepKernel kernel{.name = label_of(plan, step),
                      .launch = launch,
                      .is_update = step.kind == runtime::Step::Kind::update,
                      .contents = {state}};
    if (step.kind == runtime::Step::Kind::launch) {
      kernel.node = &plan.graph.nodes()[step.index];
      kernel.contents = contents_of(*kernel.node, launch->io, state);
    }
    found.push_back(std::move(kernel));
  }
  return found;
}

std::vector<KernelTime> time_step(const runtime::Plan& plan, Device& device) {
  std::vector<KernelTime> times;
  std::map<std::string, double> known;  // most layers of a model are alike
  const auto seconds_of = [&](const StepKernel& kernel) {
    const runtime::Launch& launch = *kernel.launch;
    const auto measured = [&] {
      return seconds_of_launch(device, *launch.kernel, launch.io, kernel.contents);
    };
    if (kernel.node == nullptr) return measured();
    const std::string description = runtime::description_of(*kernel.node->op, launch.io);
    const auto found = known.find(description);
    return found != known.end() ? found->second : known.emplace(description, measured()).first->second;
  };
  for (const StepKernel& kernel : kernels_of(plan)) {
    if (!kernel.is_update && kernel.node == nullptr) continue;
    const runtime::Launch& launch = *kernel.launch;
    KernelTime time{
        .name = kernel.name, .node = kernel.node, .bytes = runtime::moved_bytes(launch, kernel.is_update)};
    if (kernel.node != nullptr) {
      time.flops = kernel.node->op->flops(plan.graph.types(kernel.node->inputs),
                                          plan.graph.types(kernel.node->outputs));
    }
    time.seconds = seconds_of(kernel);
    times.push_back(std::move(time));
  }
  return times;
}

KernelTime sum_of(const std::vector<KernelTime>& kernels) {
  KernelTime sum{.name = "step", .count = 0};
  for (const KernelTime& kernel : kernels) add(sum, kernel);
  return sum;
}

std::vector<KernelTime> sums_of_kinds(const std::vector<KernelTime>& kernels) {
  std::vector<KernelTime> sums;
  for (const KernelTime& kernel : kernels) {
    const std::string kind =
        kernel.node == nullptr ? "update" : kernel.name.substr(kernel.name.rfind(' ') + 1);
    auto sum = std::ranges::find(sums, kind, &KernelTime::name);
    if (sum == sums.end()) sum = sums.insert(sum, {.name = kind, .count = 0});
    add(*sum, kernel);
  }
  std::ranges::sort(sums, std::greater{}, &KernelTime::seconds);
  return sums;
}

}  // namespace lockstep::shares
