#pragma once

#include <driver_types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simgpu/engine/grid.h"
#include "tests/simgpu/engine/limits.h"
#include "tests/simgpu/operation.h"

namespace [[gnu::visibility("default")]] simgpu {

/// What CUDA answers to a launch of the kernel with this shape; an error is also the next cudaGetLastError.
/// Without one it sets what static shared memory the kernel may have.
cudaError_t check_launch(const void* kernel, Grid& grid);

/// For an argument of the launch that points to a type with this alignment: a mistake unless it keeps it.
void check_alignment(const void* pointer, std::size_t alignment, const Grid& grid);

/// A kernel's name without its parameters, where the program's symbols tell it; else "kernel".
std::string kernel_name(const void* kernel);

/// Adds the pointer, unless it is null.
void add_pointer(const void* pointer, bool writes, std::vector<Access>& accesses);
/// Adds the word if it is a device address.
void add_word(std::uintptr_t word, std::vector<Access>& accesses);

}  // namespace simgpu
