#include "tests/gpu/shares/timing.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/base/deadline.h"
#include "kernels/base/half.h"

namespace lockstep::shares {
namespace {

using namespace kernels;

constexpr int rounds = 3;
constexpr double seconds_a_round = 0.02;
constexpr int most_launches = 1000;

constexpr std::size_t random_count = std::size_t{1} << 20;

template <class T>
std::vector<T> random_numbers() {
  std::minstd_rand generator(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<T> made(random_count);
  for (T& value : made) {
    if constexpr (std::is_same_v<T, float>) {
      value = uniform(generator);
    } else {
      narrow(uniform(generator), value);
    }
  }
  return made;
}

std::span<const std::byte> random_bytes(DType dtype) {
  static const auto floats = random_numbers<float>();
  static const auto bfloats = random_numbers<BFloat16>();
  static const auto halves = random_numbers<Float16>();
  if (dtype == DType::f32) return std::as_bytes(std::span(floats));
  if (dtype == DType::bf16) return std::as_bytes(std::span(bfloats));
  return dtype == DType::f16 ? std::as_bytes(std::span(halves)) : std::span<const std::byte>();
}

std::vector<std::int64_t> random_integers(std::size_t count, const Contents& contents) {
  std::minstd_rand generator(1);
  std::uniform_int_distribution<std::int64_t> uniform(contents.least, contents.most);
  std::vector<std::int64_t> made(count);
  for (std::int64_t& value : made) value = uniform(generator);
  return made;
}

void fill(Device& device, Memory& memory, const TensorDesc& desc, const Contents& contents, Stream& stream) {
  auto* const to = static_cast<std::byte*>(memory.data());
  if (desc.dtype == DType::i64) {
    const auto integers = random_integers(memory.bytes() / sizeof(std::int64_t), contents);
    device.copy_to_device(to, integers.data(), memory.bytes(), stream);
    stream.synchronize();
  } else if (desc.dtype == DType::u8 && memory.bytes() == sizeof(contents.state)) {
    device.copy_to_device(to, &contents.state, sizeof(contents.state), stream);
  } else if (const auto values = random_bytes(desc.dtype); !values.empty()) {
    for (std::size_t at = 0; at < memory.bytes(); at += values.size()) {
      device.copy_to_device(to + at, values.data(), std::min(values.size(), memory.bytes() - at), stream);
    }
  }
}

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return Seconds(Clock::now() - start).count();
}

/// Of one launch among many that a graph holds.
double seconds_of_replay(Device& device, BoundKernel& bound, Stream& stream, double guess) {
  const int count = std::clamp(static_cast<int>(seconds_a_round / guess), 1, most_launches);
  const auto graph = device.capture(stream, [&] {
    for (int i = 0; i < count; ++i) bound.launch(stream);
  });
  const auto replay = [&] {
    graph->launch(stream);
    stream.synchronize();
  };
  replay();
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) best = std::min(best, seconds_of(replay) / count);
  return best;
}

}  // namespace

double shortest(const std::function<void()>& run, double budget_seconds) {
  const auto until = Clock::now() + std::chrono::duration<double>(budget_seconds);
  double best = std::numeric_limits<double>::infinity();
  for (int runs = 0; runs < 3 || Clock::now() < until; ++runs) best = std::min(best, seconds_of(run));
  return best;
}

void fill_with_random(std::span<std::byte> memory) {
  const auto values = random_bytes(DType::bf16);  // two make an f32
  for (std::size_t at = 0; at < memory.size(); at += values.size())
    std::memcpy(memory.data() + at, values.data(), std::min(values.size(), memory.size() - at));
}

LoneLaunch::LoneLaunch(Device& device, const Kernel& kernel, const KernelIo& io, const Contents& contents)
    : stream_(device.make_stream()) {
  std::vector<void*> args;
  const auto allocate = [&](std::size_t bytes) {
    memory_.push_back(device.allocate(bytes));
    return memory_.back()->data();
  };
  for (const auto* descs : {&io.inputs, &io.outputs}) {
    for (const TensorDesc& desc : *descs) {
      args.push_back(allocate(desc.bytes()));
      fill(device, *memory_.back(), desc, contents, *stream_);
    }
  }
  bound_ = kernel.bind(args, allocate(std::max<std::size_t>(kernel.workspace_bytes(), 64)));
}

void LoneLaunch::run() {
  bound_->launch(*stream_);
  stream_->synchronize();
}

double seconds_of_launch(Device& device, const Kernel& kernel, const KernelIo& io, const Contents& contents,
                         double budget_seconds) {
  LoneLaunch launch(device, kernel, io, contents);
  const auto once = [&] { launch.run(); };
  once();
  if (!device.has_graphs()) return shortest(once, budget_seconds);
  return seconds_of_replay(device, launch.bound(), launch.stream(), std::max(seconds_of(once), 1e-7));
}

}  // namespace lockstep::shares
