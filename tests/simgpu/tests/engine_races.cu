// Kernels that lack something, and the same ones with it.

#include "tests/simgpu/language.h"
#include "tests/simgpu/tests/engine_cases.h"

namespace {

using simgpu::launch;
using simgpu::test::Numbers;
using simgpu::test::ok;

constexpr int threads = 64;
constexpr unsigned everyone = 0xffffffffu;

template <bool mended>
__global__ void read_neighbour(const float* in, float* out) {
  __shared__ float tile[threads];
  tile[threadIdx.x] = in[threadIdx.x];
  if constexpr (mended) __syncthreads();
  out[threadIdx.x] = tile[(threadIdx.x + 1) % threads];
}

template <bool mended>
__global__ void use_tile_twice(const float* in, float* out) {
  __shared__ float tile[threads];
  for (int round = 0; round < 2; ++round) {
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] += tile[(threadIdx.x + 1) % threads];
    if constexpr (mended) __syncthreads();
  }
}

/// A shuffle lets lanes meet, but orders nothing.
template <bool mended>
__global__ void read_neighbouring_lane(float* out) {
  __shared__ float tile[32];
  tile[threadIdx.x] = __shfl_xor_sync(everyone, 1.0f, 1);
  __shfl_xor_sync(everyone, 1.0f, 1);
  if constexpr (mended) __syncwarp();
  out[threadIdx.x] = tile[(threadIdx.x + 1) % 32];
}

/// The wait makes a thread's own copies; other threads' are there behind a barrier.
template <bool mended>
__global__ void read_copy_of_neighbour(const float* in, float* out) {
  __shared__ float tile[threads];
  simgpu::begin_copy(tile + threadIdx.x, in + threadIdx.x, true);
  if constexpr (!mended) __syncthreads();
  simgpu::wait_for_copies();
  if constexpr (mended) __syncthreads();
  out[threadIdx.x] = tile[(threadIdx.x + 1) % threads];
}

/// A copy may write at once, though it is waited for later.
template <bool mended>
__global__ void copy_over_what_is_read(const float* in, float* out) {
  __shared__ float tile[threads];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[(threadIdx.x + 1) % threads];
  if constexpr (mended) __syncthreads();
  simgpu::begin_copy(tile + threadIdx.x, in + threadIdx.x, true);
  __syncthreads();
  simgpu::wait_for_copies();
}

template <bool mended>
__global__ void read_tile(float* out) {
  __shared__ uint4 tile[32];
  tile[threadIdx.x] = {threadIdx.x, 0, 0, 0};
  if constexpr (mended) __syncwarp();
  std::uint32_t words[4];
  simgpu::load_tile<false>(words, tile, 2);
  out[threadIdx.x] = static_cast<float>(words[0]);
}

template <bool mended>
__global__ void count(float* counter) {
  if constexpr (mended) {
    atomicAdd(counter, 1.0f);
  } else {
    *counter += 1.0f;
  }
}

template <int size, bool mended>
__device__ float block_sum(float value) {
  __shared__ float partial[size / 32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(everyone, value, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (const float each : partial) sum += each;
  if constexpr (mended) __syncthreads();  // the next sum uses the array again
  return sum;
}

template <bool mended>
__global__ void layer_norm(float* rows, int width) {
  float* row = rows + blockIdx.x * static_cast<unsigned>(width);
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += threads) sum += row[i];
  const float mean = block_sum<threads, mended>(sum) / static_cast<float>(width);
  float squares = 0;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += threads)
    squares += (row[i] - mean) * (row[i] - mean);
  const float scale = rsqrtf(block_sum<threads, mended>(squares) / static_cast<float>(width) + 1e-5f);
  for (int i = static_cast<int>(threadIdx.x); i < width; i += threads) row[i] = (row[i] - mean) * scale;
}

/// One thread finds the largest, all use it.
template <bool mended>
__global__ void softmax(float* row) {
  DYNAMIC_SHARED(float, shared);
  shared[threadIdx.x] = row[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < threads; ++i) shared[0] = max(shared[0], shared[i]);
  }
  if constexpr (mended) __syncthreads();
  row[threadIdx.x] = __expf(row[threadIdx.x] - shared[0]);
}

__device__ float sum_of(const float* values) {
  asm volatile("" ::: "memory");  // values stay in memory
  return values[0] + values[1];
}

/// Local arrays of threads that take turns on the machine's stacks are nobody else's; a shared one is.
template <bool mended>
__global__ void local_array(float* out) {
  if constexpr (mended) {
    float own[2] = {static_cast<float>(threadIdx.x), 1.0f};
    out[threadIdx.x] = sum_of(own);
  } else {
    __shared__ float own[2];
    own[0] = static_cast<float>(threadIdx.x);
    own[1] = 1.0f;
    out[threadIdx.x] = sum_of(own);
  }
}

template <bool mended>
void read_before_write() {
  const Numbers in(threads), out(threads);
  ok(launch(read_neighbour<mended>, 3, threads, 0, nullptr, in, out));
}
template <bool mended>
void write_before_read() {
  const Numbers in(threads), out(threads);
  ok(launch(use_tile_twice<mended>, 1, threads, 0, nullptr, in, out));
}
template <bool mended>
void read_before_copy() {
  const Numbers in(threads), out(threads);
  ok(launch(read_copy_of_neighbour<mended>, 1, threads, 0, nullptr, in, out));
}
template <bool mended>
void copy_before_read() {
  const Numbers in(threads), out(threads);
  ok(launch(copy_over_what_is_read<mended>, 1, threads, 0, nullptr, in, out));
}
template <bool mended>
void lanes_read_before_write() {
  const Numbers out(32);
  ok(launch(read_neighbouring_lane<mended>, 1, 32, 0, nullptr, out));
}
template <bool mended>
void tile_read_before_write() {
  const Numbers out(32);
  ok(launch(read_tile<mended>, 1, 32, 0, nullptr, out));
}
template <bool mended>
void plain_addition() {
  const Numbers counter(1);
  ok(launch(count<mended>, 2, threads, 0, nullptr, counter));
}
template <bool mended>
void reduction() {
  const Numbers rows(4 * 100);
  ok(launch(layer_norm<mended>, 4, threads, 0, nullptr, rows, 100));
}
template <bool mended>
void run_softmax() {
  const Numbers row(threads);
  ok(launch(softmax<mended>, 1, threads, threads * sizeof(float), nullptr, row));
}
template <bool mended>
void run_local_array() {
  const Numbers out(threads);
  ok(launch(local_array<mended>, 2, threads, 0, nullptr, out));
}

}  // namespace

namespace simgpu::test {

#define BOTH(name, run)          \
  {#name, run<false>}, {         \
#name "_mended", run < true> \
  }
const Cases cases{
    BOTH(read_before_write, read_before_write),
    BOTH(write_before_read, write_before_read),
    BOTH(read_before_copy, read_before_copy),
    BOTH(copy_before_read, copy_before_read),
    BOTH(lanes_read_before_write, lanes_read_before_write),
    BOTH(tile_read_before_write, tile_read_before_write),
    BOTH(plain_addition, plain_addition),
    BOTH(reduction, reduction),
    BOTH(softmax, run_softmax),
    BOTH(local_array, run_local_array),
};
#undef BOTH

}  // namespace simgpu::test
