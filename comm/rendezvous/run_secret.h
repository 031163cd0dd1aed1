#pragma once

#include <optional>
#include <string>

#include "comm/communicator.h"
#include "comm/world/find_world.h"

namespace lockstep::comm {

inline constexpr const char* token_variable = "LOCKSTEP_TOKEN";

/// The secret that this process was given: empty with --insecure, else what --token-file holds, else
/// LOCKSTEP_TOKEN (launch's own, too). Nothing when it was given none. UsageError when the file is missing,
/// empty or not private, and when --insecure comes with --token-file.
std::optional<std::string> given_secret(const CommOptions& options, const Environment& environment);

}  // namespace lockstep::comm
