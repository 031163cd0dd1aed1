// Kernels that touch one element too many, and the same ones that do not.

#include "tests/simgpu/language.h"
#include "tests/simgpu/tests/engine_cases.h"

namespace {

using simgpu::launch;
using simgpu::test::Numbers;
using simgpu::test::ok;

constexpr int size = 30;

__global__ void fill(float* out, int count) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < count) out[i] = 1.0f;
}

__global__ void read_dynamic(float* out, int count) {
  DYNAMIC_SHARED(float, tile);
  const int i = static_cast<int>(threadIdx.x);
  if (i < size) tile[i] = 1.0f;
  __syncthreads();
  if (i < count) out[0] = tile[i];
}

__global__ void read_static(float* out, int count) {
  STATIC_SHARED(float, tile, size);
  const int i = static_cast<int>(threadIdx.x);
  if (i < size) tile[i] = 1.0f;
  __syncthreads();
  const float* first = tile;
  if (i < count) out[0] = first[i];
}

__global__ void read_plain(float* out, int count) {
  __shared__ float tile[size];
  const int i = static_cast<int>(threadIdx.x);
  if (i < size) tile[i] = 1.0f;
  __syncthreads();
  if (i < count) out[0] = tile[i];
}

__device__ float last_of(const float* values, int count) {
  __syncthreads();
  return values[count - 1];
}

/// A thread's own array, on a stack that is left and entered again.
__global__ void read_own(float* out, int count) {
  float own[size] = {};
  out[0] = last_of(own, count);
}

template <int count>
void device_memory() {
  const Numbers out(size);
  ok(launch(fill, 1, 32, 0, nullptr, out, count));
}
template <int count>
void dynamic_shared() {
  const Numbers out(1);
  ok(launch(read_dynamic, 2, 32, size * sizeof(float), nullptr, out, count));
}
template <int count>
void static_shared() {
  const Numbers out(1);
  ok(launch(read_static, 2, 32, 0, nullptr, out, count));
}
template <int count>
void plain_shared() {
  const Numbers out(1);
  ok(launch(read_plain, 2, 32, 0, nullptr, out, count));
}
template <int count>
void own_array() {
  const Numbers out(1);
  ok(launch(read_own, 2, 32, 0, nullptr, out, count));
}

}  // namespace

namespace simgpu::test {

#define BOTH(name)                \
  {#name, name<size + 1>}, {      \
#name "_mended", name < size> \
  }
const Cases cases{BOTH(device_memory), BOTH(dynamic_shared), BOTH(static_shared), BOTH(plain_shared),
                  BOTH(own_array)};
#undef BOTH

}  // namespace simgpu::test
