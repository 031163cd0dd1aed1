#include "runtime/plan/algorithms.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/deadline.h"
#include "kernels/base/error.h"
#include "kernels/base/half.h"
#include "kernels/conv2d.h"
#include "model/spec_op.h"

namespace lockstep::runtime {
namespace {

constexpr int timed_tries = 5;
/// Between two synchronisations of an asynchronous device: the wait costs as much as a short kernel.
constexpr int launches_in_a_row = 10;

/// The launches of one try. A device with graphs replays them as one graph, as it does a step, so that the
/// measurement does not contain the host's launch overhead; where a library refuses that, they are walked.
class Try {
 public:
  Try(kernels::BoundKernel& kernel, kernels::Device& device, kernels::Stream& stream)
      : kernel_(kernel), stream_(stream), launches_(device.is_async() ? launches_in_a_row : 1) {
    run_kernels(1);  // a graph holds what has run before
    stream.synchronize();
    if (device.has_graphs()) graph_ = captured(device);
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
  std::unique_ptr<kernels::CapturedGraph> captured(kernels::Device& device) {
    try {
      return device.capture(stream_, [this] { run_kernels(launches_); });
    } catch (const DeviceError&) {
      return nullptr;
    }
  }

  void run_kernels(int count) {
    for (int i = 0; i < count; ++i) kernel_.launch(stream_);
  }

  kernels::BoundKernel& kernel_;
  kernels::Stream& stream_;
  int launches_;
  std::unique_ptr<kernels::CapturedGraph> graph_;
};

template <class Half>
void narrow_into(const std::vector<float>& values, std::vector<std::byte>& bytes) {
  auto* to = reinterpret_cast<Half*>(bytes.data());
  for (const float value : values) narrow(value, *to++);
}

/// Random numbers, since a GPU runs faster on zeros than on data. Whole numbers may be places in a table:
/// they stay 0.
void fill(const kernels::TensorDesc& desc, void* memory, kernels::Device& device, kernels::Stream& stream) {
  if (desc.dtype != DType::f32 && !is_half(desc.dtype)) return;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> pattern(1 << 16);
  std::ranges::generate(pattern, [&] { return uniform(random); });
  std::vector<std::byte> bytes(pattern.size() * size_of(desc.dtype));
  if (desc.dtype == DType::f32) std::memcpy(bytes.data(), pattern.data(), bytes.size());
  if (desc.dtype == DType::bf16) narrow_into<BFloat16>(pattern, bytes);
  if (desc.dtype == DType::f16) narrow_into<Float16>(pattern, bytes);
  for (std::size_t at = 0; at < desc.bytes(); at += bytes.size()) {
    device.copy_to_device(static_cast<std::byte*>(memory) + at, bytes.data(),
                          std::min(bytes.size(), desc.bytes() - at), stream);
  }
  stream.synchronize();
}

/// Seconds of a launch in the fastest try after one to warm up.
double time_op(const model::Op& op, const kernels::KernelIo& io, kernels::Device& device) {
  const kernels::KernelPtr kernel = op.kernel(device, io);
  const auto stream = device.make_stream();
  std::vector<std::unique_ptr<kernels::Memory>> memory;
  std::vector<void*> args;
  for (const auto* descs : {&io.inputs, &io.outputs}) {
    for (const kernels::TensorDesc& desc : *descs) {
      args.push_back(memory.emplace_back(device.allocate(desc.bytes()))->data());
      fill(desc, args.back(), device, *stream);
    }
  }
  const auto workspace = device.allocate(std::max<std::size_t>(kernel->workspace_bytes(), 64));
  const auto bound = kernel->bind(args, workspace->data());
  Try launches(*bound, device, *stream);
  launches.run();
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < timed_tries; ++i) best = std::min(best, launches.run());
  return best;
}

/// Infinite for one that the device offers and cannot make: a library's promise to have a plan is none to
/// build it.
double time_candidate(const model::Op& op, const kernels::KernelIo& io, kernels::Device& device) {
  try {
    return time_op(op, io, device);
  } catch (const DeviceError&) {
    return std::numeric_limits<double>::infinity();
  }
}

bool can_be_made(const model::Op& op, const kernels::KernelIo& io, const kernels::Device& device) {
  try {
    op.kernel(device, io);
    return true;
  } catch (const DeviceError&) {
    return false;
  }
}

std::string fastest_algorithm(const model::Op& op, const std::vector<model::OpPtr>& candidates,
                              const kernels::KernelIo& io, kernels::Device& device) {
  double best = time_op(op, io, device);
  std::string fastest = op.algorithm();
  for (const model::OpPtr& candidate : candidates) {
    const double seconds = time_candidate(*candidate, io, device);
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

std::string description_of(const model::Op& op, const kernels::KernelIo& io) {
  const std::string attributes = op.attributes();
  return fmt::format("{}{}{}: {} -> {}", op.name(), attributes.empty() ? "" : " ", attributes,
                     description_of(io.inputs), description_of(io.outputs));
}

void set_precision(model::Graph& graph, kernels::MatmulPrecision products,
                   kernels::MatmulPrecision convolutions) {
  for (model::Node& node : graph.nodes()) {
    const auto precision = is_convolution(*node.op) ? convolutions : products;
    if (model::OpPtr changed = node.op->with_precision(precision)) node.op = std::move(changed);
  }
}

kernels::MatmulPrecision default_conv_precision(const kernels::Device& device) {
  return device.is_cpu() ? kernels::MatmulPrecision::highest : kernels::MatmulPrecision::high;
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
    if (offered == candidates.end() || !can_be_made(**offered, graph.io(node), device))
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
