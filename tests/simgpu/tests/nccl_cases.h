#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/simgpu/tests/nccl_ranks.h"
#include "tests/support/catch.h"

// What the cases of nccl_rules and nccl_buffers share.
namespace simgpu::testing {

inline constexpr int mistake = 86;
inline constexpr std::size_t count = 1000;

/// On every rank: `use` with a communicator of all and a buffer of `count` floats.
inline std::vector<Outcome> with_buffer(int ranks, const std::function<void(Rank&, float*)>& use) {
  const ncclUniqueId id = fresh_id();
  return run_ranks(ranks, [&](int rank) {
    Rank own(id, rank, ranks);
    use(own, on_device(std::vector<float>(count, 1.0F)));
  });
}

inline void sum(const Rank& own, float* values, std::size_t how_many = count) {
  own.complete(ncclAllReduce(values, values, how_many, ncclFloat32, ncclSum, own.comm, own.stream));
}

inline void check_all(const std::vector<Outcome>& outcomes, int code, const std::string& text) {
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.code == code);
    CHECK_THAT(outcome.errors, lockstep::tests::contains(text));
  }
}

}  // namespace simgpu::testing
