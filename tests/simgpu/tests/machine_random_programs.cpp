// Programs by chance, judged by an oracle that knows all pairs.

#include <algorithm>
#include <array>
#include <optional>
#include <random>

#include "tests/simgpu/tests/machine_support.h"
#include "tests/support/catch.h"

namespace simgpu::test {
namespace {

constexpr std::size_t streams = 3;
constexpr std::size_t events = 3;
constexpr std::size_t floats = 12;

/// What happens before what, written down in full: for each act all acts before it.
class Oracle {
 public:
  struct Bytes {
    std::size_t begin;
    std::size_t end;
    bool writes;
  };

  /// A kernel on `stream`; false: it has no order with an earlier one that uses the same bytes.
  bool kernel(std::size_t stream, const std::vector<Bytes>& uses) {
    std::vector<bool> before = known_to_[stream];
    before.resize(acts_.size());
    join(before, host_);
    bool ordered = true;
    for (std::size_t other = 0; other < acts_.size(); ++other) {
      if (!before[other] && conflict(acts_[other], uses)) ordered = false;
    }
    acts_.push_back(uses);
    before.push_back(true);
    known_to_[stream] = before;
    return ordered;
  }
  void record(std::size_t event, std::size_t stream) {
    recorded_[event] = known_to_[stream];
    join(*recorded_[event], host_);
  }
  void wait(std::size_t stream, std::size_t event) {
    if (recorded_[event]) join(known_to_[stream], *recorded_[event]);
  }
  void synchronize_event(std::size_t event) {
    if (recorded_[event]) join(host_, *recorded_[event]);
  }
  void synchronize_stream(std::size_t stream) { join(host_, known_to_[stream]); }

 private:
  static void join(std::vector<bool>& known, const std::vector<bool>& more) {
    known.resize(std::max(known.size(), more.size()));
    for (std::size_t i = 0; i < more.size(); ++i) known[i] = known[i] || more[i];
  }
  static bool conflict(const std::vector<Bytes>& some, const std::vector<Bytes>& others) {
    for (const Bytes& a : some) {
      for (const Bytes& b : others) {
        if ((a.writes || b.writes) && a.begin < b.end && b.begin < a.end) return true;
      }
    }
    return false;
  }

  std::vector<std::vector<Bytes>> acts_;
  std::array<std::vector<bool>, streams> known_to_;
  std::array<std::optional<std::vector<bool>>, events> recorded_;
  std::vector<bool> host_;
};

class Program {
 public:
  explicit Program(unsigned seed) : random_(seed) {
    for (auto& stream : streams_) stream = make_stream();
    for (auto& event : events_) event = make_event();
    set_floats(memory_, expected_);
  }

  /// One act on the machine and on the oracle. Both must say the same; false: it was a mistake.
  bool step() {
    const std::size_t stream = below(streams);
    const std::size_t event = below(events);
    switch (below(10)) {
      case 0:
        oracle_.synchronize_stream(stream);
        ok(cudaStreamSynchronize(streams_[stream]));
        return true;
      case 1:
        oracle_.synchronize_event(event);
        ok(cudaEventSynchronize(events_[event]));
        return true;
      case 2:
      case 3:
        oracle_.record(event, stream);
        ok(cudaEventRecord(events_[event], streams_[stream]));
        return true;
      case 4:
      case 5:
        oracle_.wait(stream, event);
        ok(cudaStreamWaitEvent(streams_[stream], events_[event], 0));
        return true;
      default:
        return kernel(stream);
    }
  }

  void check_memory() const { CHECK(read_floats(memory_, floats) == expected_); }

 private:
  std::size_t below(std::size_t end) { return random_() % end; }

  Oracle::Bytes some_bytes(bool writes) {
    const std::size_t begin = below(floats);
    return {begin, begin + 1 + below(std::min<std::size_t>(3, floats - begin)), writes};
  }

  bool kernel(std::size_t stream) {
    const Oracle::Bytes from = some_bytes(false);
    const Oracle::Bytes to = some_bytes(true);
    const auto run = [=, number = static_cast<float>(++kernels_)](float* values) {
      const float sum = values[from.begin] + values[from.end - 1];
      for (std::size_t i = to.begin; i < to.end; ++i) values[i] = 0.5F * values[i] + 0.25F * sum + number;
    };
    const bool ordered = oracle_.kernel(stream, {from, to});
    const std::string mistake = mistake_in([&] {
      ok(enqueue(streams_[stream], {Operation::Kind::kernel,
                                    "kernel " + std::to_string(kernels_),
                                    {access(from), access(to)},
                                    [=, values = memory_] {
                                      run(values);
                                      return true;
                                    }}));
    });
    CHECK(mistake == (ordered ? "none" : "missing event"));
    if (ordered) run(expected_.data());
    return ordered;
  }

  Access access(const Oracle::Bytes& bytes) const {
    return {memory_ + bytes.begin, memory_ + bytes.end, bytes.writes};
  }

  FreshMachine fresh_;
  std::mt19937 random_;
  std::array<cudaStream_t, streams> streams_{};
  std::array<cudaEvent_t, events> events_{};
  float* memory_ = make_floats(floats);
  std::vector<float> expected_ = std::vector<float>(floats, 1);
  Oracle oracle_;
  int kernels_ = 0;
};

}  // namespace

TEST_CASE(
    "programs by chance: a missing order is told exactly where there is one, and the rest has one result") {
  int mistakes = 0;
  int steps = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    Program program(seed);
    bool right = true;
    for (int i = 0; right && i < 60; ++i) {
      right = program.step();
      ++steps;
    }
    if (!right) ++mistakes;
    program.check_memory();
  }
  CHECK(mistakes > 100);
  CHECK(steps > 2000);
}

}  // namespace simgpu::test
