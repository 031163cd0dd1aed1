#pragma once

#include <filesystem>

namespace lockstep::runtime {

/// Whether the ELF file ends before its segments do, as after a copy that was cut off: the loader maps such a
/// file, and dies of SIGBUS where it reads behind the end. What cannot be read, or is no ELF file of this
/// machine, is left to the loader.
bool is_cut_off(const std::filesystem::path& file);

}  // namespace lockstep::runtime
