#pragma once

#include <sys/types.h>

#include <filesystem>

namespace lockstep {

/// What something that is no regular file is called, by its mode: "a FIFO".
const char* kind_name(mode_t mode);

/// DeviceError where a file that is renamed to `path` would take the place of a folder, a FIFO or a device,
/// as root's may, or of a link to an open stream (/dev/stdout).
void require_replaceable(const std::filesystem::path& path);

}  // namespace lockstep
