#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::comm {

/// The text of a small file that holds a secret; nothing when there is none. UsageError, with the hint, when
/// it cannot be read, others may read it, or it belongs to neither this user nor root.
std::optional<std::string> read_private_file(const std::filesystem::path& path);

}  // namespace lockstep::comm
