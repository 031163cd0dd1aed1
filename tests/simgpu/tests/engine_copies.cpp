#include <cmath>
#include <string>
#include <vector>

#include "tests/simgpu/tests/engine_support.h"

using namespace simgpu;
using simgpu::test::mistake_of;

namespace {

constexpr int threads = 64;

uint4 four_of(unsigned word) {
  return {word, word + 1, word + 2, word + 3};
}
bool same(const uint4& a, const uint4& b) {
  return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
}

}  // namespace

TEST_CASE("a copy is not there before the wait, and is there behind it") {
  std::vector<float> in(threads, 1.0f);
  std::vector<uint4> in_fours(threads, four_of(1));
  int early = 0, wrong = 0;
  test::run(2, threads, [&] {
    STATIC_SHARED(float, tile, threads);
    STATIC_SHARED(uint4, fours, threads);
    const unsigned i = threadIdx.x;
    tile[i] = 5.0f;
    fours[i] = four_of(5);
    begin_copy(tile + i, &in[i], true);
    begin_copy(fours + i, &in_fours[i], true);
    early += !std::isnan(tile[i]) || !same(fours[i], {~0u, ~0u, ~0u, ~0u});
    in[i] = static_cast<float>(i + blockIdx.x);
    in_fours[i] = four_of(i + blockIdx.x);
    wait_for_copies();
    __syncthreads();
    const unsigned next = (i + 1) % threads;
    wrong +=
        tile[next] != static_cast<float>(next + blockIdx.x) || !same(fours[next], four_of(next + blockIdx.x));
  });
  CHECK(early == 0);
  CHECK(wrong == 0);
}

TEST_CASE("a wait makes the copies of the calling thread alone, in order, and each once") {
  const float older = 1.0f, newer = 2.0f;
  int wrong = 0;
  test::run(1, 2, [&] {
    STATIC_SHARED(float, tile, 2);
    float& own = tile[threadIdx.x];
    begin_copy(&own, &older, true);
    begin_copy(&own, &newer, true);
    __syncthreads();
    if (threadIdx.x == 0) wait_for_copies();
    __syncthreads();
    wrong += threadIdx.x == 0 ? own != newer : !std::isnan(own);
    if (threadIdx.x == 1) wait_for_copies();
    wrong += own != newer;
    own = 3.0f;
    wait_for_copies();
    wrong += own != 3.0f;
    begin_copy(&own, &older, true);
    wait_for_copies();
    wrong += own != older;
  });
  CHECK(wrong == 0);
}

TEST_CASE("a copy that is not there becomes zeros and reads nothing") {
  const float* const nowhere = nullptr;
  const uint4* const nowhere_four = nullptr;
  int wrong = 0;
  test::run(1, threads, [&] {
    STATIC_SHARED(float, tile, threads);
    STATIC_SHARED(uint4, fours, threads);
    const unsigned i = threadIdx.x;
    begin_copy(tile + i, nowhere, false);
    begin_copy(fours + i, nowhere_four, false);
    wrong += !std::isnan(tile[i]) || fours[i].x != ~0u;
    wait_for_copies();
    wrong += tile[i] != 0.0f || !same(fours[i], {0, 0, 0, 0});
  });
  CHECK(wrong == 0);
}

TEST_CASE("a thread that returns without a wait for its copies is a mistake") {
  const float in = 1.0f;
  const auto copy = [&in](unsigned waiting) {
    return [&in, waiting] {
      STATIC_SHARED(float, tile, threads);
      begin_copy(tile + threadIdx.x, &in, true);
      if (threadIdx.x < waiting) wait_for_copies();
    };
  };
  const auto seen = mistake_of(2, threads, copy(threads - 1));
  CHECK(seen.kind == "copy not waited for");
  CHECK(seen.text.find("thread (63,0,0) begins a copy at ") != std::string::npos);
  CHECK(seen.text.find("engine_copies.cpp:") != std::string::npos);
  CHECK(mistake_of(2, threads, copy(threads)).kind == "none");
}

TEST_CASE("a grid knows nothing of the copies of one that a mistake ended") {
  const float in = 1.0f;
  float tile = 0;
  CHECK(mistake_of(1, 1, [&] {
          begin_copy(&tile, &in, true);
          trap({"__trap", Site::here()});
        }).kind == "trap");
  tile = 2.0f;
  CHECK(mistake_of(1, 1, [] { wait_for_copies(); }).kind == "none");
  CHECK(tile == 2.0f);
}
