#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace lockstep::runtime {

/// Ranks whose weights are not those of most ranks; when halves differ, those that are not as rank 0's.
std::vector<int> diverged_ranks(const std::vector<std::string>& hashes);

/// `hashes`: of each rank's weights, by rank. CommError names the replicas that have
/// diverged.
void require_no_drift(const std::vector<std::string>& hashes, std::int64_t step);

}  // namespace lockstep::runtime
