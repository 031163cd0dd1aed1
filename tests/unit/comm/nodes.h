#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/store/client.h"
#include "tests/support/unused_port.h"
#include "tests/unit/comm/ranks.h"

namespace lockstep::comm::testing {

using tests::unused_port;

/// Rank `rank` of a world whose rank r is on node `nodes[r]`; rank 0 has the store, at `port`.
std::unique_ptr<Communicator> join_nodes(int rank, const std::vector<int>& nodes, const std::string& run_id,
                                         int port, Seconds timeout);

/// A further client of that store.
StoreClient connect_to_store(const std::string& run_id, int port);

/// Calls `body` as every rank of such a world, on a thread each. What a rank threw, by rank.
std::vector<std::string> run_nodes(const std::vector<int>& nodes, Seconds timeout,
                                   const std::function<void(Communicator&)>& body);

}  // namespace lockstep::comm::testing
