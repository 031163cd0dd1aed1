#pragma once

#include <optional>
#include <string>

#include "comm/store/client.h"
#include "comm/world/world.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// Where a rank that counts other ranks than rank 0 says so, for all that wait for it.
inline constexpr const char* refusal_key = "refusal";
/// With a rank's number behind it: what that rank tells all others. It stays when the rank goes.
inline constexpr const char* peers_key = "peer/";
/// Why the ranks have failed.
inline constexpr const char* abort_key = "abort";

/// With a rank's number behind it: what the process that is this rank claims, "rank <r> (pid <p> on <host>)".
inline constexpr const char* places_key = "rank/";
std::string key_of_place(int rank);

/// Claims this rank's place in the start of the run whose store this is. Nothing when it has the place; else
/// why the next start's store is to be looked for: this start has failed, or comes to its end. UsageError
/// when another process is this rank, and when rank 0 counts other ranks.
std::optional<std::string> join_start(StoreClient& store, const World& world, Deadline deadline);

}  // namespace lockstep::comm
