#include "runtime/plan/benchmark.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <sstream>

#include "kernels/base/deadline.h"

namespace lockstep::runtime {
namespace {

constexpr int timed_tries = 5;
/// Between two synchronisations where a device works by itself: the wait costs as much as a short kernel.
constexpr int launches_in_a_row = 10;

/// What one try launches: on a device with graphs as one, as a step is, so that the host's pace is not what
/// is measured.
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

}  // namespace

SelectedAlgorithms benchmark_algorithms(const Plan& plan, kernels::Device& device) {
  SelectedAlgorithms choices;
  for (const model::Node& node : plan.graph.nodes()) {
    const kernels::KernelIo io = plan.graph.io(node);
    const std::vector<model::OpPtr> candidates = node.op->candidates(device, io);
    if (candidates.empty()) continue;
    double best = time_op(*node.op, io, device);
    std::string choice = node.op->algorithm();
    for (const model::OpPtr& candidate : candidates) {
      const double seconds = time_op(*candidate, io, device);
      if (seconds >= best) continue;
      best = seconds;
      choice = candidate->algorithm();
    }
    choices[node.key()] = choice;
  }
  return choices;
}

std::string to_text(const SelectedAlgorithms& choices) {
  std::ostringstream text;
  for (const auto& [key, choice] : choices) text << choice << ' ' << key << '\n';
  return text.str();
}

SelectedAlgorithms selected_algorithms_from(const std::string& text) {
  SelectedAlgorithms choices;
  std::istringstream lines(text);
  std::string choice;
  for (std::string key; lines >> choice && std::getline(lines >> std::ws, key);) choices[key] = choice;
  return choices;
}

}  // namespace lockstep::runtime
