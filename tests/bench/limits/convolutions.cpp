#include "tests/bench/limits/convolutions.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "runtime/run/run_plans.h"
#include "runtime/run/task.h"
#include "tests/bench/limits/onednn_convolution.h"
#include "tests/bench/limits/step.h"

namespace lockstep::bench {
namespace {

using namespace kernels;
using Result = Convolution::Result;

struct Workload {
  const char* model;
  const char* batch;
  const char* image;
  const char* classes;
};
constexpr std::array workloads{
    Workload{"convnet", "64", "3x28x28", "10"}, Workload{"resnet18", "16", "3x224x224", "1000"},
    Workload{"mobilenet_v3_small", "64", "3x32x32", "10"}, Workload{"resnet50", "8", "3x224x224", "1000"}};

runtime::Plan plan_of(const Workload& workload, bool bf16, const Device& device) {
  const runtime::Options options = runtime::parse_options(
      {"--model", workload.model, "--dataset", "synthetic", "--batch-size", workload.batch, "--image-shape",
       workload.image, "--num-classes", workload.classes, "--amp", bf16 ? "bf16" : "off"});
  const runtime::TrainingTask task = runtime::make_task_without_data(options);
  return runtime::make_plan(task.model, task.input,
                            runtime::training_request(options, {.batch = options.batch_size}, 1, {}), device,
                            runtime::plan_constraints(options));
}

TensorType type_of(const TensorDesc& desc) {
  return {desc.dtype, desc.shape};
}

/// The node as a convolution; none for anything else.
std::optional<Convolution> convolution_of(const model::Op& op, const KernelIo& io) {
  const auto in = [&](std::size_t at) { return type_of(io.inputs[at]); };
  const auto out = [&](std::size_t at) { return type_of(io.outputs[at]); };
  if (const auto* forward = op.as<Conv2d>()) {
    return Convolution{Result::y, in(Conv2d::x), in(Conv2d::w), out(Conv2d::y), forward->geometry};
  }
  if (const auto* data = op.as<Conv2dBackwardData>()) {
    using Data = Conv2dBackwardData;
    return Convolution{Result::x, out(Data::dx), in(Data::w), in(Data::dy), data->geometry};
  }
  if (const auto* weights = op.as<Conv2dBackwardWeights>()) {
    using Weights = Conv2dBackwardWeights;
    return Convolution{Result::w, in(Weights::x), out(Weights::dw), in(Weights::dy), weights->geometry};
  }
  return std::nullopt;
}

std::string describe(const Convolution& convolution) {
  constexpr const char* names[] = {"forward", "data", "weights"};
  const Conv2dGeometry& geometry = convolution.geometry;
  return fmt::format("{:<8} {} * {}{}{}", names[static_cast<int>(convolution.result)],
                     convolution.x.shape.str(), convolution.w.shape.str(),
                     geometry.stride[0] > 1 ? fmt::format(" / {}", geometry.stride[0]) : "",
                     geometry.groups > 1 ? fmt::format(" in {} groups", geometry.groups) : "");
}

double seconds_of(const model::Op& op, const KernelIo& io, Device& device) {
  const KernelPtr kernel = op.kernel(device, io);
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<void*> addresses;
  for (const auto* descs : {&io.inputs, &io.outputs}) {
    for (const TensorDesc& desc : *descs) {
      addresses.push_back(memory.emplace_back(device.allocate(desc.bytes()))->data());
    }
  }
  const auto workspace = device.allocate(std::max<std::size_t>(kernel->workspace_bytes(), 64));
  const auto bound = kernel->bind(addresses, workspace->data());
  const auto stream = device.make_stream();
  return shortest([&] { bound->launch(*stream); });
}

}  // namespace

std::vector<std::string> convolution_models() {
  std::vector<std::string> names;
  for (const Workload& workload : workloads) names.emplace_back(workload.model);
  return names;
}

std::vector<ConvolutionRow> measure_convolutions(const std::string& model, bool bf16, Device& device) {
  const auto* const workload = std::ranges::find(workloads, model, &Workload::model);
  const runtime::Plan plan = plan_of(*workload, bf16, device);
  std::vector<ConvolutionRow> rows;
  std::map<std::string, std::size_t> known;
  for (const model::Node& node : plan.graph.nodes()) {
    const KernelIo io = plan.graph.io(node);
    const auto convolution = convolution_of(*node.op, io);
    if (!convolution) continue;
    const auto [row, is_new] = known.try_emplace(describe(*convolution), rows.size());
    if (!is_new) {
      ++rows[row->second].count;
      continue;
    }
    rows.push_back({.layer = node.layer,
                    .what = row->first,
                    .dtype = std::string(name_of(convolution->x.dtype)),
                    .ours_ms = 1e3 * seconds_of(*node.op, io, device),
                    .onednn_ms = 1e3 * onednn_seconds(*convolution)});
  }
  return rows;
}

}  // namespace lockstep::bench
