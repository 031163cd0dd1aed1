#include "tests/gpu/shares/timing.h"

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "kernels/base/deadline.h"
#include "kernels/cuda/library.h"

namespace lockstep::shares {
namespace {

using namespace kernels;

constexpr int rounds = 3;
constexpr double seconds_a_round = 0.02;
constexpr int most_launches = 1000;

const std::vector<float>& random_floats() {
  static const std::vector<float> values = [] {
    std::minstd_rand generator(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> made(std::size_t{1} << 20);
    for (float& value : made) value = uniform(generator);
    return made;
  }();
  return values;
}

void fill(Device& device, Memory& memory, const TensorDesc& desc, const StepState& state, Stream& stream) {
  auto* const to = static_cast<std::byte*>(memory.data());
  if (desc.dtype != DType::f32) {
    if (desc.dtype == DType::u8 && memory.bytes() == sizeof(state))
      device.copy_to_device(to, &state, sizeof(state), stream);
    return;  // targets: zeros, which are a class
  }
  const auto values = std::as_bytes(std::span(random_floats()));
  for (std::size_t at = 0; at < memory.bytes(); at += values.size()) {
    device.copy_to_device(to + at, values.data(), std::min(values.size(), memory.bytes() - at), stream);
  }
}

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return Seconds(Clock::now() - start).count();
}

}  // namespace

double seconds_of_launch(Device& device, const Kernel& kernel, const KernelIo& io, const StepState& state) {
  const auto stream = device.make_stream();
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<void*> args;
  for (const auto* descs : {&io.inputs, &io.outputs}) {
    for (const TensorDesc& desc : *descs) {
      memory.push_back(device.allocate(desc.bytes()));
      fill(device, *memory.back(), desc, state, *stream);
      args.push_back(memory.back()->data());
    }
  }
  const auto workspace = device.allocate(std::max<std::size_t>(kernel.workspace_bytes(), 64));
  const auto bound = kernel.bind(args, workspace->data());
  const auto launch = [&](int count) {
    for (int i = 0; i < count; ++i) bound->launch(*stream);
  };
  const auto once = [&] {
    launch(1);
    stream->synchronize();
  };
  once();
  const double guess = std::max(seconds_of(once), 1e-7);
  const int count = std::clamp(static_cast<int>(seconds_a_round / guess), 1, most_launches);
  std::unique_ptr<CapturedGraph> graph;
  if (device.has_graphs()) graph = device.capture(*stream, [&] { launch(count); });
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round <= rounds; ++round) {
    const double seconds = seconds_of([&] {
      if (graph != nullptr) {
        graph->launch(*stream);
      } else {
        launch(count);
      }
      stream->synchronize();
    });
    if (round > 0) best = std::min(best, seconds / count);
  }
  return best;
}

double bytes_of(const KernelIo& io) {
  std::size_t bytes = 0;
  for (const auto* descs : {&io.inputs, &io.outputs}) {
    for (const TensorDesc& desc : *descs) bytes += desc.bytes();
  }
  return static_cast<double>(bytes);
}

bool is_simulated(const Device& device) {
  return device.kind() == DeviceKind::cuda && cuda_in_this_build() == "simulated";
}

}  // namespace lockstep::shares
