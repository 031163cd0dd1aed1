#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "kernels/base/activity.h"
#include "kernels/base/deadline.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::data {

/// Holds the lock file `path` until the descriptor is closed, also by the end of the process. Waits while
/// another process holds it and `bytes_done`, what that one has made so far, changes within each `limit`.
/// DeviceError.
UniqueFd lock_in_turn(const std::filesystem::path& path, Seconds limit,
                      const std::function<std::uintmax_t()>& bytes_done, Activity::Work& waiting);

/// Of those files in `folder` whose names `counts`.
std::uintmax_t bytes_of_files(const std::filesystem::path& folder,
                              const std::function<bool(const std::string& name)>& counts);

}  // namespace lockstep::data
