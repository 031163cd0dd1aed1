#pragma once

#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/make_communicator.h"
#include "kernels/cuda/library.h"
#include "tests/unit/comm/ranks.h"

namespace lockstep::comm::testing {

inline constexpr std::size_t elements = 5000;
inline constexpr ExchangeLabel fc1{.bucket = 3, .what = "fc1.weight"};

inline void require(bool condition, const std::string& text) {
  if (!condition) throw std::runtime_error(text);
}

/// A rank with its GPU, in a process of its own.
struct GpuRank {
  std::unique_ptr<kernels::Device> device;
  std::unique_ptr<kernels::Stream> stream;
  std::unique_ptr<Communicator> group;
  std::unique_ptr<Arena> arena;

  GpuRank(int rank, int size, const std::string& run_id, const CommOptions& options, int gpus = 0) {
    setenv("SIMGPU_DEVICES", std::to_string(gpus > 0 ? gpus : size).c_str(), 1);
    device = kernels::make_cuda_device(gpus > 0 ? rank % gpus : rank);
    stream = device->make_stream(kernels::StreamPriority::high);
    group = make_communicator(local_world(rank, size, run_id), options, *device);
  }

  void fill(std::size_t offset, const std::vector<float>& values) {
    device->copy_to_device(arena->data() + offset, values.data(), values.size() * sizeof(float), *stream);
    stream->synchronize();
  }
  std::vector<float> read(std::size_t offset) {
    std::vector<float> values(elements);
    device->copy_to_host(values.data(), arena->data() + offset, elements * sizeof(float), *stream);
    stream->synchronize();
    return values;
  }
  void sum(ExchangeLabel label = fc1) { group->all_reduce({arena.get(), 0, elements}, label, *stream); }
  void wait() {
    const auto event = device->make_event();
    stream->record(*event);
    group->wait(*event);
  }
  void allocate() { arena = group->allocate_arena(DType::f32, elements); }
};

/// From one process to another.
class Signal {
 public:
  Signal() { require(::pipe(ends_) == 0, "pipe"); }
  ~Signal() {
    for (const int end : ends_) ::close(end);
  }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  void give() const { require(::write(ends_[1], "1", 1) == 1, "a signal that cannot be given"); }
  void await() const {
    char byte = 0;
    require(::read(ends_[0], &byte, 1) == 1, "a signal that does not come");
  }

 private:
  int ends_[2];
};

inline std::vector<RankProcess> start_ranks(int size, const std::function<void(int rank)>& body) {
  std::vector<RankProcess> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.emplace_back([=] { body(rank); });
  return ranks;
}

inline std::vector<std::string> outcomes(std::vector<RankProcess> ranks) {
  std::vector<std::string> texts;
  for (RankProcess& rank : ranks) texts.push_back(rank.outcome());
  return texts;
}

inline std::vector<std::string> run_ranks(int size, const std::function<void(int rank)>& body) {
  return outcomes(start_ranks(size, body));
}

inline CommOptions options(double seconds, const std::string& backend = "auto") {
  return {.timeout = Seconds(seconds), .backend = backend};
}

inline CommOptions sharing(CommOptions given) {
  given.gpu_sharing = true;
  return given;
}

}  // namespace lockstep::comm::testing
