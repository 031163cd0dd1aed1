#pragma once

#include <cstdint>
#include <string_view>

#include "tests/simgpu/machine/machine.h"

namespace simgpu {

/// The block that begins here and is of this kind. Mistakes "double free" and "foreign pointer".
Block& block_to_free(Machine& machine, std::uintptr_t address, Block::Kind kind, const Origin& origin,
                     std::string_view function);

/// cudaMallocAsync: other streams must wait for the allocation as for a write.
void allocate_in_order(Machine& machine, Lock& lock, void** pointer, std::size_t bytes, cudaStream_t stream,
                       const Origin& origin);

/// cudaFreeAsync: the memory is given back when the stream gets there.
void free_in_order(Machine& machine, Lock& lock, std::uintptr_t address, cudaStream_t stream,
                   const Origin& origin);

}  // namespace simgpu
