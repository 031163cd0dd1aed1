#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "comm/net/addresses.h"
#include "comm/net/handshake.h"
#include "comm/net/tcp.h"
#include "comm/polling.h"
#include "comm/store/client.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"

namespace lockstep::comm {
namespace {

// A foreign process that accepts and stays silent must not use up the time for the other ports, but a store
// that many ask at once may need some.
constexpr Seconds first_time_per_port{0.5};
constexpr Seconds most_time_per_port{8};

/// Rank 0 takes the first free port, so these are asked in every round: what is in the way of all is known
/// after 4 s.
constexpr std::size_t ports_of_each_round = 8;

/// The further ports of a wide --port-range take turns. A round asks one of them, and then more for so long,
/// as a part of the time since the search began: it finds the store at any of them, and delays the others
/// little.
constexpr double share_of_further_ports = 0.125;

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
      : is_one_port_(ports.size() == 1),
        first_ports_(std::min(ports.size(), ports_of_each_round)),
        where_(fmt::format("no store of run {} at {}, port {}", run_id, address, name_of_ports(ports))) {}

  /// Since it began.
  Seconds time() const { return Clock::now() - begin_; }

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

  /// When the first ports have been asked, and there is more than nodes that start one after the other.
  void warn_once() {
    const bool is_in_the_way = has_met_stranger_ || old_store_;
    const bool is_early = time() < time_before_warning || obstacles_.size() < first_ports_;
    if (has_warned_ || !is_in_the_way || is_early) return;
    log::warn("{}{}; trying on", result(), old_store_ ? advice() : "");
    has_warned_ = true;
  }

  std::string result() const {
    std::map<std::string, std::vector<int>> ports;
    for (const auto& [port, obstacle] : obstacles_) ports[obstacle].push_back(port);
    std::vector<std::string> parts;
    for (const auto& [obstacle, those] : ports) {
      parts.push_back(is_one_port_ ? obstacle : fmt::format("{}: {}", name_of_ports(those), obstacle));
    }
    return fmt::format("{}: {}", where_, fmt::join(parts, "; "));
  }

  std::string advice() const {
    if (old_store_) return "; start all nodes again";
    const auto says_what_to_do = [](const auto& met) {
      return met.second == wrong_secret || met.second == one_without_secret;
    };
    if (std::ranges::any_of(obstacles_, says_what_to_do)) return {};
    return has_met_stranger_
               ? "; start all nodes with the same address and port of rank 0 and the same --rdzv_id"
               : "; is rank 0 started, and is its port open to other hosts?";
  }

 private:
  bool is_one_port_;
  std::size_t first_ports_;
  std::string where_;
  std::map<int, std::string> obstacles_;
  Clock::time_point begin_ = Clock::now();
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
  Seconds time_per_port = first_time_per_port;
  const auto store_at = [&](int port) -> std::optional<StoreClient> {
    Obstacle obstacle;
    const Deadline try_until = Deadline::in(std::min(deadline.left(), time_per_port));
    Channel channel = connect_proved(address, port, context, store_request(), try_until, obstacle);
    if (channel) {
      StoreClient store(std::move(channel), address, port);
      const auto objection = objection_to(store, inspect, deadline);
      if (!objection) return std::make_optional(std::move(store));
      search.meet_old_store(port, *objection);
    } else {
      search.meet(port, obstacle, deadline.passed());
      if (obstacle.is_final) throw CommError(search.result());
    }
    search.warn_once();
    return std::nullopt;
  };
  const auto first = std::span(ports).first(std::min(ports.size(), ports_of_each_round));
  const auto further = std::span(ports).subspan(first.size());
  std::size_t next = 0;  // of the further ones
  while (true) {
    for (const int port : first) {
      if (auto store = store_at(port)) return *std::move(store);
    }
    const Deadline end = Deadline::in(std::min(deadline.left(), share_of_further_ports * search.time()));
    for (std::size_t asked = 0; asked < further.size() && (asked == 0 || !end.passed()); ++asked) {
      if (auto store = store_at(further[next])) return *std::move(store);
      next = (next + 1) % further.size();
    }
    if (deadline.passed()) throw CommError(search.result() + search.advice());
    backoff.pause();
    time_per_port = std::min(2 * time_per_port, most_time_per_port);
  }
}

std::optional<StoreClient> StoreClient::find(const std::string& address, int port,
                                             const Credentials& credentials, Deadline deadline) {
  Obstacle obstacle;
  UniqueFd socket = connect_tcp(address, port, deadline, obstacle.text);
  if (!socket) return std::nullopt;
  // Made for who answers: it takes ten times as long as to find a port of a wide range closed.
  const TlsContext context(credentials);
  Channel channel = prove(std::move(socket), context, store_request(), deadline, obstacle);
  if (!channel) return std::nullopt;
  return StoreClient(std::move(channel), address, port);
}

}  // namespace lockstep::comm
