#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/shm/node_ranks.h"
#include "comm/store/client.h"
#include "comm/tcp/mesh.h"
#include "comm/watchdog/patience.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// Each rank's text for all, through the store: what set-up, evaluation and agreement need. Rare, small and
/// latency-bound, so it takes the simple way; gradients do not.
class StoreGather {
 public:
  /// `status_of`: for ranks that are late because of long work.
  StoreGather(StoreClient& store, NodeRanks& node, const std::vector<PeerInfo>& peers,
              Patience::StatusOf status_of)
      : store_(store), node_(node), peers_(peers), status_of_(std::move(status_of)) {}

  /// Within a call of the node's; all ranks make the same calls. CommError names the missing ranks.
  std::vector<std::string> operator()(std::string_view mine);

 private:
  /// Adds the texts of the next ranks: of one at least.
  void wait_for_more(std::vector<std::string>& texts);
  std::string text_in(const std::string& value, int rank) const;
  static std::string key_of(int rank, std::uint64_t number);
  [[noreturn]] void fail_without(int rank);

  StoreClient& store_;
  NodeRanks& node_;
  const std::vector<PeerInfo>& peers_;
  const Patience::StatusOf status_of_;
  std::uint64_t number_ = 0;
  Clock::time_point start_{};  ///< of this gather: its call may have waited for another, past its deadline
};

}  // namespace lockstep::comm
