#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "comm/make_communicator.h"
#include "comm/world/world.h"

namespace lockstep::comm {

inline constexpr const char* token_variable = "LOCKSTEP_TOKEN";

/// The secret that this process was given: empty with --insecure, else what --token-file holds, else
/// LOCKSTEP_TOKEN (launch's own, too). Nothing when it was given none. UsageError when the file is missing or
/// not private, when the secret is too short, and when --insecure comes with --token-file. DeviceError when
/// the file's disk fails.
std::optional<std::string> given_secret(const CommOptions& options, const Environment& environment);

/// The text of a small file that holds a secret; nothing when there is none. UsageError, with the hint, when
/// this user may not read it, others may, or it belongs to neither this user nor root. What root owns may be
/// readable by a group of this process. DeviceError when its disk fails.
std::optional<std::string> read_private_file(const std::filesystem::path& path);

}  // namespace lockstep::comm
