#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "comm/net/handshake.h"
#include "comm/polling.h"
#include "comm/store/client.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"

namespace lockstep::comm {
namespace {

// A foreign process that accepts and stays silent must not use up the time for the other ports, but a store
// that many ask at once may need some.
constexpr Seconds time_of_first_round{4};
constexpr Seconds most_time_per_port{8};
constexpr double least_ports_in_round = 8;

/// Somebody who speaks with another secret, or not at all, may be in the way for a moment.
constexpr Seconds time_before_warning{2};

constexpr Backoff::Pauses between_tries{.eager = std::chrono::microseconds(0),
                                        .first = std::chrono::milliseconds(1),
                                        .longest = std::chrono::milliseconds(100)};

ConnectionRequest store_request() {
  return {.purpose = std::string(store_purpose)};
}

/// What a client has met at the ports where the store may be.
class Search {
 public:
  Search(const std::string& address, const std::vector<int>& ports, const std::string& run_id)
      : ports_(ports.size()),
        where_(fmt::format("no store of run {} at {}, port {}", run_id, address, fmt::join(ports, ", "))) {}

  /// A try that the deadline cut short does not hide the obstacle of an earlier one.
  void meet(int port, const Obstacle& obstacle, bool is_cut_short) {
    if (is_cut_short && obstacles_.contains(port)) return;
    obstacles_[port] = obstacle.text;
    has_met_stranger_ = has_met_stranger_ || obstacle.is_stranger;
    if (old_store_ == port) old_store_.reset();
  }

  /// The run's own store, but not the one that is looked for.
  void meet_old_store(int port, const std::string& objection) {
    obstacles_[port] = objection;
    old_store_ = port;
  }

  /// When all ports have been asked, and there is more than nodes that start one after the other.
  void warn_once() {
    const bool is_in_the_way = has_met_stranger_ || old_store_;
    if (has_warned_ || !is_in_the_way || !patience_.passed() || obstacles_.size() < ports_) return;
    log::warn("{}{}; trying on", result(), old_store_ ? advice() : "");
    has_warned_ = true;
  }

  std::string result() const {
    std::map<std::string, std::vector<int>> ports;
    for (const auto& [port, obstacle] : obstacles_) ports[obstacle].push_back(port);
    std::vector<std::string> parts;
    for (const auto& [obstacle, those] : ports) {
      parts.push_back(fmt::format("{}: {}", fmt::join(those, ", "), obstacle));
    }
    return fmt::format("{}: {}", where_, fmt::join(parts, "; "));
  }

  std::string advice() const {
    if (old_store_) return "; start all nodes again";
    return has_met_stranger_
               ? "; start all nodes with the same address and port of rank 0 and the same --rdzv_id"
               : "; is rank 0 started, and is its port open to other hosts?";
  }

 private:
  std::size_t ports_;
  std::string where_;
  std::map<int, std::string> obstacles_;
  Deadline patience_ = Deadline::in(time_before_warning);
  std::optional<int> old_store_;  ///< its port, while it is there
  bool has_met_stranger_ = false;
  bool has_warned_ = false;
};

/// That of `inspect`; also that the store was lost meanwhile.
std::optional<std::string> objection_to(StoreClient& store, const StoreClient::Inspect& inspect,
                                        Deadline deadline) {
  if (!inspect) return std::nullopt;
  try {
    return inspect(store);
  } catch (const CommError& error) {
    if (deadline.passed()) throw;
    return error.what();
  }
}

}  // namespace

StoreClient StoreClient::connect(const std::string& address, const std::vector<int>& ports,
                                 const Credentials& credentials, Deadline deadline, const Inspect& inspect) {
  const TlsContext context(credentials);
  Search search(address, ports, credentials.run_id);
  Backoff backoff(between_tries);
  Seconds time_per_port =
      time_of_first_round / std::max(static_cast<double>(ports.size()), least_ports_in_round);
  while (true) {
    for (const int port : ports) {
      Obstacle obstacle;
      const Deadline try_until = Deadline::in(std::min(deadline.left(), time_per_port));
      Channel channel = connect_proved(address, port, context, store_request(), try_until, obstacle);
      if (channel) {
        StoreClient store(std::move(channel), address, port);
        const auto objection = objection_to(store, inspect, deadline);
        if (!objection) return store;
        search.meet_old_store(port, *objection);
      } else {
        search.meet(port, obstacle, deadline.passed());
        if (obstacle.is_final) throw CommError(search.result());
      }
      search.warn_once();
    }
    if (deadline.passed()) throw CommError(search.result() + search.advice());
    backoff.pause();
    time_per_port = std::min(2 * time_per_port, most_time_per_port);
  }
}

std::optional<StoreClient> StoreClient::find(const std::string& address, int port,
                                             const Credentials& credentials, Deadline deadline) {
  Obstacle obstacle;
  Channel channel =
      connect_proved(address, port, TlsContext(credentials), store_request(), deadline, obstacle);
  if (!channel) return std::nullopt;
  return StoreClient(std::move(channel), address, port);
}

}  // namespace lockstep::comm
