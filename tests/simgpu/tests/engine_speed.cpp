// What the engine costs: `test_simgpu_engine "[speed]"` prints it. The machines that tests run on are too
// different for a bound.

#include <chrono>
#include <cstdio>
#include <vector>

#include "tests/simgpu/tests/engine_support.h"

namespace {

constexpr int threads = 256;
constexpr unsigned everyone = 0xffffffffu;

__device__ float block_sum(float value) {
  __shared__ float partial[threads / 32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(everyone, value, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < threads / 32 ? partial[threadIdx.x % 32] : 0.0f;
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(everyone, value, step);
  __syncthreads();
  return value;
}

__global__ void layer_norm(const float* rows, float* out, int width) {
  const float* row = rows + blockIdx.x * static_cast<unsigned>(width);
  float* result = out + blockIdx.x * static_cast<unsigned>(width);
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += threads) sum += row[i];
  const float mean = block_sum(sum) / static_cast<float>(width);
  float squares = 0;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += threads)
    squares += (row[i] - mean) * (row[i] - mean);
  const float scale = rsqrtf(block_sum(squares) / static_cast<float>(width) + 1e-5f);
  for (int i = static_cast<int>(threadIdx.x); i < width; i += threads) result[i] = (row[i] - mean) * scale;
}

__global__ void add(const float* a, float* b, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) b[i] += a[i];
}

template <typename Body>
void print_time(const char* what, Body body) {
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count());
  }
  std::printf("%-40s %7.1f ms\n", what, best);
}

}  // namespace

TEST_CASE("speed of the engine", "[.speed]") {
  constexpr int rows = 1024, width = 768, count = 10'000'000;
  std::vector<float> in(rows * width), out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i * 7919 % 1000);
  print_time("layer norm, 1024 rows of 768",
             [&] { simgpu::test::run(rows, threads, [&] { layer_norm(in.data(), out.data(), width); }); });
  std::vector<float> a(count, 1.0f), b(count);
  print_time("addition, 10,000,000 threads", [&] {
    simgpu::test::run((count + threads - 1) / threads, threads, [&] { add(a.data(), b.data(), count); });
  });
}
