#include "runtime/plan/benchmark.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <sstream>

#include "kernels/base/deadline.h"

namespace lockstep::runtime {
namespace {

constexpr int timed_launches = 5;

/// Seconds of the fastest launch after one to warm up.
double time_op(const model::Op& op, const kernels::KernelIo& io, kernels::Device& device) {
  const kernels::KernelPtr kernel = op.prepare(device, io);
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
  double best = std::numeric_limits<double>::infinity();
  for (int launch = 0; launch <= timed_launches; ++launch) {
    const auto start = Clock::now();
    bound->launch(*stream);
    stream->synchronize();
    if (launch > 0) best = std::min(best, Seconds(Clock::now() - start).count());
  }
  return best;
}

}  // namespace

AlgorithmChoices benchmark_algorithms(const Plan& plan, kernels::Device& device) {
  AlgorithmChoices choices;
  for (const model::Node& node : plan.graph.nodes()) {
    const kernels::KernelIo io = plan.graph.io(node);
    const std::vector<model::OpPtr> variants = node.op->variants(device, io);
    if (variants.empty()) continue;
    double best = time_op(*node.op, io, device);
    std::size_t choice = 0;
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const double seconds = time_op(*variants[i], io, device);
      if (seconds >= best) continue;
      best = seconds;
      choice = i + 1;
    }
    choices[node.layer + " " + node.op->name()] = choice;
  }
  return choices;
}

std::string to_text(const AlgorithmChoices& choices) {
  std::ostringstream text;
  for (const auto& [key, choice] : choices) text << choice << ' ' << key << '\n';
  return text.str();
}

AlgorithmChoices choices_from_text(const std::string& text) {
  AlgorithmChoices choices;
  std::istringstream lines(text);
  std::size_t choice = 0;
  for (std::string key; lines >> choice && std::getline(lines >> std::ws, key);) choices[key] = choice;
  return choices;
}

}  // namespace lockstep::runtime
