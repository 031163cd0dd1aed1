#pragma once

#include <cstddef>
#include <string>

namespace lockstep {

/// `bytes` bytes from the kernel's generator as lower-case hexadecimal digits: for names and secrets that
/// nobody can predict.
std::string random_hex(std::size_t bytes);

}  // namespace lockstep
