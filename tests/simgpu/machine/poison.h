#pragma once

#include <cstddef>
#include <cstdint>

namespace simgpu {

/// In a program built with AddressSanitizer: makes every access to these bytes an error, or lets them be
/// touched again. Otherwise nothing.
void poison(std::uintptr_t begin, std::size_t bytes);
void unpoison(std::uintptr_t begin, std::size_t bytes);

}  // namespace simgpu
