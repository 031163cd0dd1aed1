#pragma once

#include <vector_types.h>

#include <cstdint>
#include <string>

#include "tests/simgpu/engine/device_calls.h"

/// How reports name things.
namespace simgpu {

/// "__syncthreads at a.cu:12", "__syncwarp with mask 0x0000000f at a.cu:12".
std::string call_text(const Call& call, std::uint32_t mask);
/// "(3,0,0)".
std::string index_text(const uint3& index);
/// "kernel NAME (launched at FILE:LINE), block (0,0,0)" of the grid that the calling system thread runs.
std::string running_block_text();

}  // namespace simgpu
