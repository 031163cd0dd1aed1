#include "tests/simgpu/nccl/arithmetic.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>

namespace simgpu::nccl {
namespace {

template <class T>
T add(T left, T right) {
  return left + right;
}

template <>
__nv_bfloat16 add(__nv_bfloat16 left, __nv_bfloat16 right) {
  return __float2bfloat16(__bfloat162float(left) + __bfloat162float(right));
}

template <>
__half add(__half left, __half right) {
  return __float2half(__half2float(left) + __half2float(right));
}

template <class T>
void sum(std::span<const std::byte* const> inputs, std::byte* result, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    T total = reinterpret_cast<const T*>(inputs.front())[i];
    for (const std::byte* input : inputs.subspan(1)) total = add(total, reinterpret_cast<const T*>(input)[i]);
    reinterpret_cast<T*>(result)[i] = total;
  }
}

}  // namespace

void sum_in_order(std::span<const std::byte* const> inputs, std::byte* result, std::size_t count,
                  ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
      return sum<float>(inputs, result, count);
    case ncclFloat64:
      return sum<double>(inputs, result, count);
    case ncclBfloat16:
      return sum<__nv_bfloat16>(inputs, result, count);
    case ncclFloat16:
      return sum<__half>(inputs, result, count);
    default:
      throw std::logic_error("sum_in_order: a type that can_sum refuses");
  }
}

}  // namespace simgpu::nccl
