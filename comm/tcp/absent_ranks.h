#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/store/client.h"

namespace lockstep::comm {

/// After a wait for the key of rank `awaited` that has ended in vain: that rank, even if its key comes just
/// now, and those after it whose keys are not there either.
std::vector<int> absent_ranks(StoreClient& store, int awaited, int ranks,
                              const std::function<std::string(int rank)>& key_of);

}  // namespace lockstep::comm
