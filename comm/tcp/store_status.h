#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/shm/node_ranks.h"
#include "comm/store/client.h"
#include "comm/tcp/link.h"
#include "comm/watchdog/watchdog.h"

namespace lockstep::comm {

/// The other nodes as the watchdog sees them: statuses and the first abort's reason are keys of the store, on
/// a connection of its own, which it opens again when it is lost; lost ranks show by their data connections.
class StoreStatus final : public RemoteStatus {
 public:
  using Connect = std::function<StoreClient(Deadline)>;

  /// `links` outlive it.
  StoreStatus(Connect connect, const std::vector<Link>& links, int rank, Deadline deadline);
  ~StoreStatus() override;

  void publish_heartbeat(const std::string& text) noexcept override;
  void publish_final_status(const std::string& text) noexcept override;
  std::optional<std::string> read_status(int rank) noexcept override;
  std::string publish_abort(const std::string& reason) noexcept override;
  std::vector<int> lost_ranks() noexcept override;
  bool claim_report(const std::string& cause) noexcept override;

 private:
  /// That of `call(deadline)`, which asks the store and throws where no answer comes by then.
  template <class Call>
  auto answer_of(Call call);

  Connect connect_;
  StoreClient store_;
  const std::vector<Link>& links_;
  int rank_;
  bool is_late_ = false;  ///< an answer is awaited for longer than a call waits
};

/// A thread that waits for another node's abort, or for the loss of the store, and ends every wait of this
/// node; then for the report that a rank claims.
class AbortListener {
 public:
  /// `holder` is the rank that holds the store, for the report of its loss.
  AbortListener(StoreClient store, NodeRanks& node, Watchdog& watchdog, std::string holder,
                Deadline deadline);
  ~AbortListener();
  AbortListener(const AbortListener&) = delete;
  AbortListener& operator=(const AbortListener&) = delete;

 private:
  void listen();

  StoreClient store_;
  NodeRanks& node_;
  Watchdog& watchdog_;
  std::string holder_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace lockstep::comm
