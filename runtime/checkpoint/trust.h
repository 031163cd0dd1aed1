#pragma once

#include <filesystem>
#include <string>

namespace lockstep::runtime {

/// Why RUN/ or a file in it cannot be trusted: it is a symbolic link, or people other than its owner, root
/// and the groups of this process may write it. Empty if it can be, or is not there.
std::string reason_to_distrust(const std::filesystem::path& path);

/// The same for RUN/ and the files in it that a run reads or writes.
std::string reason_to_distrust_run(const std::filesystem::path& run);

/// The same for a checkpoint's folder, which also must be a folder of this user, of root or of the owner of
/// what holds it.
std::string reason_to_distrust_checkpoint(const std::filesystem::path& checkpoint);

}  // namespace lockstep::runtime
