#pragma once

#include <string>
#include <thread>
#include <vector>

#include "comm/shm/node_ranks.h"
#include "comm/store/client.h"
#include "comm/tcp/mesh.h"
#include "comm/watchdog/watchdog.h"

namespace lockstep::comm {

/// The other nodes as the watchdog sees them: statuses and the first abort's reason are keys of the store, on
/// a connection of its own.
class StoreStatus final : public RemoteStatus {
 public:
  explicit StoreStatus(StoreClient store, int rank) : store_(std::move(store)), rank_(rank) {}
  ~StoreStatus() override;

  void publish_status(const std::string& text) noexcept override;
  std::string read_status(int rank) noexcept override;
  std::string publish_abort(const std::string& reason) noexcept override;

 private:
  StoreClient store_;
  int rank_;
};

/// A thread that waits for another node's abort, or for the loss of the store, and ends every wait of this
/// node.
class AbortListener {
 public:
  /// `holder` is the rank that holds the store, for the report of its loss.
  AbortListener(StoreClient store, NodeRanks& node, std::string holder);
  ~AbortListener();
  AbortListener(const AbortListener&) = delete;
  AbortListener& operator=(const AbortListener&) = delete;

 private:
  void listen();

  StoreClient store_;
  NodeRanks& node_;
  std::string holder_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace lockstep::comm
