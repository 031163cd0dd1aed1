#include "runtime/plan/algorithms.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/deadline.h"
#include "kernels/conv2d.h"
#include "model/spec_op.h"

namespace lockstep::runtime {
namespace {

constexpr int timed_tries = 5;
/// Between two synchronisations of an asynchronous device: the wait costs as much as a short kernel.
constexpr int launches_in_a_row = 10;

/// The launches of one try. A device with graphs replays them as one graph, as it does a step, so that the
/// measurement does not contain the host's launch overhead.
class Try {
 public:
  Try(kernels::BoundKernel& kernel, kernels::Device& device, kernels::Stream& stream)
      : kernel_(kernel), stream_(stream), launches_(device.is_async() ? launches_in_a_row : 1) {
    run_kernels(1);  // a graph holds what has run before
    stream.synchronize();
    if (device.has_graphs()) graph_ = device.capture(stream, [this] { run_kernels(launches_); });
  }

  /// Seconds of one launch.
  double run() {
    const auto start = Clock::now();
    if (graph_)
      graph_->launch(stream_);
    else
      run_kernels(launches_);
    stream_.synchronize();
    return Seconds(Clock::now() - start).count() / launches_;
  }

 private:
  void run_kernels(int count) {
    for (int i = 0; i < count; ++i) kernel_.launch(stream_);
  }

  kernels::BoundKernel& kernel_;
  kernels::Stream& stream_;
  int launches_;
  std::unique_ptr<kernels::CapturedGraph> graph_;
};

/// Seconds of a launch in the fastest try after one to warm up.
double time_op(const model::Op& op, const kernels::KernelIo& io, kernels::Device& device) {
  const kernels::KernelPtr kernel = op.kernel(device, io);
  std::vector<std::unique_ptr<kernels::Memory>> memory;
  std::vector<void*> args;
  for (const auto* descs : {&io.inputs, &io.outputs}) {
    for (const kernels::TensorDesc& desc : *descs) {
      args.push_back(memory.emplace_back(device.allocate(desc.bytes()))->data());
    }
  }
  const auto workspace = device.allocate(std::max<std::size_t>(kernel->workspace_bytes(), 64));
  const auto bound = kernel->bind(args, workspace->data());
  const auto stream = device.make_stream();
  Try launches(*bound, device, *stream);
  launches.run();
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < timed_tries; ++i) best = std::min(best, launches.run());
  return best;
}

std::string fastest_algorithm(const model::Op& op, const std::vector<model::OpPtr>& candidates,
                              const kernels::KernelIo& io, kernels::Device& device) {
  double best = time_op(op, io, device);
  std::string fastest = op.algorithm();
  for (const model::OpPtr& candidate : candidates) {
    const double seconds = time_op(*candidate, io, device);
    if (seconds >= best) continue;
    best = seconds;
    fastest = candidate->algorithm();
  }
  return fastest;
}

std::string description_of(std::span<const kernels::TensorDesc> tensors) {
  std::string text;
  for (const kernels::TensorDesc& desc : tensors) {
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", desc.type().str(), desc.layout_or_row_major().str());
  }
  return text;
}

/// Equal for ops that take equally long.
std::string description_of(const model::Op& op, const kernels::KernelIo& io) {
  const std::string attributes = op.attributes();
  return fmt::format("{}{}{}: {} -> {}", op.name(), attributes.empty() ? "" : " ", attributes,
                     description_of(io.inputs), description_of(io.outputs));
}

bool is_offered(const std::string& algorithm, const model::Op& op,
                const std::vector<model::OpPtr>& candidates) {
  const auto has_it = [&](const model::OpPtr& candidate) { return candidate->algorithm() == algorithm; };
  return algorithm == op.algorithm() || std::ranges::any_of(candidates, has_it);
}

bool is_convolution(const model::Op& op) {
  return op.as<kernels::Conv2d>() != nullptr || op.as<kernels::Conv2dBackwardData>() != nullptr ||
         op.as<kernels::Conv2dBackwardWeights>() != nullptr;
}

}  // namespace

void set_precision(model::Graph& graph, kernels::MatmulPrecision products,
                   kernels::MatmulPrecision convolutions) {
  for (model::Node& node : graph.nodes()) {
    const auto precision = is_convolution(*node.op) ? convolutions : products;
    if (model::OpPtr changed = node.op->with_precision(precision)) node.op = std::move(changed);
  }
}

kernels::MatmulPrecision default_conv_precision(const kernels::Device& device) {
  return device.kind() == kernels::DeviceKind::cuda ? kernels::MatmulPrecision::high
                                                    : kernels::MatmulPrecision::highest;
}

Benchmark benchmark_algorithms(const model::Graph& graph, kernels::Device& device, KnownAlgorithms& known) {
  Benchmark benchmark;
  for (const model::Node& node : graph.nodes()) {
    const kernels::KernelIo io = graph.io(node);
    const std::vector<model::OpPtr> candidates = node.op->candidates(device, io);
    if (candidates.empty()) continue;
    std::string& fastest = known[description_of(*node.op, io)];
    if (!is_offered(fastest, *node.op, candidates)) {
      fastest = fastest_algorithm(*node.op, candidates, io, device);
      ++benchmark.timed;
    }
    benchmark.selected[node.key()] = fastest;
  }
  return benchmark;
}

std::vector<std::string> apply_selected_algorithms(model::Graph& graph, const kernels::Device& device,
                                                   const SelectedAlgorithms& selected) {
  std::vector<std::string> unavailable;
  for (model::Node& node : graph.nodes()) {
    const auto wanted = selected.find(node.key());
    if (wanted == selected.end() || wanted->second == node.op->algorithm()) continue;
    const std::vector<model::OpPtr> candidates = node.op->candidates(device, graph.io(node));
    const auto offered = std::ranges::find(
        candidates, wanted->second, [](const model::OpPtr& candidate) { return candidate->algorithm(); });
    if (offered == candidates.end())
      unavailable.push_back(wanted->first + ": " + wanted->second);
    else
      node.op = *offered;
  }
  return unavailable;
}

std::string to_text(const SelectedAlgorithms& selected) {
  std::ostringstream text;
  for (const auto& [op, algorithm] : selected) text << algorithm << ' ' << op << '\n';
  return text.str();
}

SelectedAlgorithms selected_algorithms_from(const std::string& text) {
  SelectedAlgorithms selected;
  std::istringstream lines(text);
  std::string algorithm;
  for (std::string op; lines >> algorithm && std::getline(lines >> std::ws, op);) selected[op] = algorithm;
  return selected;
}

}  // namespace lockstep::runtime
