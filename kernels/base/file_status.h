#pragma once

#include <sys/types.h>

#include <filesystem>

namespace lockstep {

/// What is at `path`, links followed, for fs::exists and fs::is_directory: of a path alone they throw what is
/// no error of ours. DataError where nothing tells, as in a folder that may not be entered.
std::filesystem::file_status status_at(const std::filesystem::path& path);

/// What something that is no regular file is called, by its mode: "a FIFO".
const char* kind_name(mode_t mode);

/// DeviceError where a file that is renamed to `path` would take the place of a folder, a FIFO or a device,
/// as root's may, or of a link to an open stream (/dev/stdout).
void require_replaceable(const std::filesystem::path& path);

}  // namespace lockstep
