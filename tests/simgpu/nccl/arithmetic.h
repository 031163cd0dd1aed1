#pragma once

#include <nccl.h>

#include <cstddef>
#include <span>

namespace simgpu::nccl {

/// Sums of these types are modelled.
constexpr bool can_sum(ncclDataType_t type) {
  return type == ncclFloat32 || type == ncclFloat64 || type == ncclBfloat16 || type == ncclFloat16;
}

/// result[i] = (inputs[0][i] + inputs[1][i]) + ..., in this order. 16-bit types are rounded after each
/// addition, as values that travel round a ring are. `result` may be one of the inputs.
void sum_in_order(std::span<const std::byte* const> inputs, std::byte* result, std::size_t count,
                  ncclDataType_t type);

}  // namespace simgpu::nccl
