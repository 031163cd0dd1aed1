#include "comm/net/authenticated_listener.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "comm/net/tcp.h"
#include "comm/polling.h"
#include "kernels/base/descriptors.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"

namespace lockstep::comm {
namespace {

/// Between lines about the same reasons; it doubles with each.
constexpr Seconds shortest_pause{1};
constexpr Seconds longest_pause{60};

/// A line stays readable whatever strangers make up.
constexpr std::size_t most_reasons = 8;
constexpr const char* other_reasons = "other reasons";

/// Whoever was admitted is served in between, however many others knock.
constexpr int most_accepted_at_once = 64;

}  // namespace

void RejectionLog::add(const std::string& reason, const std::string& peer) {
  const bool is_known = reasons_.contains(reason) || reasons_.size() < most_reasons;
  Rejections& same = reasons_[is_known ? reason : other_reasons];
  ++same.count;
  same.last_peer = peer;
  if (told_.size() < most_reasons && told_.insert(reason).second) {
    pause_ = shortest_pause;
    next_line_.reset();
  }
  write_when_due();
}

void RejectionLog::write_when_due() {
  if (next_line_ && !next_line_->passed()) return;
  write();
}

Seconds RejectionLog::time_left() const {
  return reasons_.empty() || !next_line_ ? Seconds(3600) : next_line_->left();
}

void RejectionLog::write() {
  if (reasons_.empty()) return;
  std::vector<std::string> parts;
  for (const auto& [reason, rejections] : reasons_) {
    parts.push_back(rejections.count == 1
                        ? fmt::format("closed the connection from {}: {}", rejections.last_peer, reason)
                        : fmt::format("closed {} connections, the last from {}: {}", rejections.count,
                                      rejections.last_peer, reason));
  }
  log::warn("{}: {}", port_, fmt::join(parts, "; "));
  reasons_.clear();
  next_line_ = Deadline::in(pause_);
  pause_ = std::min(2 * pause_, longest_pause);
}

PendingConnections::PendingConnections(UniqueFd listener, const Credentials& credentials, PortService service)
    : listener_(std::move(listener)),
      context_(credentials),
      service_(std::move(service)),
      rejections_(service_.name) {}

int PendingConnections::port() const {
  return local_port(listener_.get());
}

void PendingConnections::append_events(std::vector<pollfd>& events, bool accepting) const {
  for (const Pending& pending : half_open_) {
    events.push_back({pending.handshake.fd(), pending.handshake.wanted_events(), 0});
  }
  if (accepting && pause_.is_over()) events.push_back({listener_.get(), POLLIN, 0});
}

Seconds PendingConnections::time_left() const {
  Seconds least = rejections_.time_left();
  for (const Pending& pending : half_open_) least = std::min(least, pending.handshake.deadline().left());
  if (!pause_.is_over()) least = std::min(least, pause_.left());
  return least;
}

std::vector<AuthenticatedConnection> PendingConnections::serve(std::span<const pollfd> events) {
  std::vector<AuthenticatedConnection> connections;
  auto pending = half_open_.begin();
  for (const pollfd& event : events.first(half_open_.size())) {
    Handshake& handshake = pending->handshake;
    if (event.revents != 0 || handshake.deadline().passed()) handshake.advance();
    if (handshake.state() == Handshake::State::pending) {
      ++pending;
      continue;
    }
    if (handshake.state() == Handshake::State::refused) {
      if (is_about_secret(handshake.problem()))
        came_without_secret_ = fmt::format("{}: {}", pending->peer.name(), handshake.problem());
      rejections_.add(handshake.problem(), pending->peer.name());
    } else {
      connections.push_back({handshake.take_channel(), handshake.purpose(), pending->peer.name()});
    }
    pending = half_open_.erase(pending);
  }
  if (!events.empty() && events.back().fd == listener_.get() && events.back().revents != 0) {
    accept_connections();
  }
  rejections_.write_when_due();
  return connections;
}

void PendingConnections::accept_connections() {
  for (int accepted = 0; accepted < most_accepted_at_once; ++accepted) {
    PeerAddress peer;
    UniqueFd socket = accept_tcp(listener_.get(), peer);
    if (!socket && lacks_room_to_accept(errno)) {
      rejections_.add(obstacle_to_open(errno), "the queue");
      pause_.begin();
    }
    if (!socket) return;
    add(std::move(socket), peer);
  }
}

void PendingConnections::add(UniqueFd socket, const PeerAddress& peer) {
  const std::string network = peer.network();
  if (!make_room(network)) return rejections_.add("too many handshakes at once", peer.name());
  half_open_.push_back({Handshake(std::move(socket), context_, Handshake::Role::server, service_.accepts,
                                  Deadline::in(service_.time_for_hello)),
                        peer, network});
}

bool PendingConnections::make_room(const std::string& network) {
  const auto of_network = [&](const Pending& pending) { return pending.network == network; };
  const bool is_network_full = std::ranges::count_if(half_open_, of_network) >= most_of_a_network;
  if (!is_network_full && half_open_.size() < most_half_open) return true;
  const std::string crowd = is_network_full ? network : largest_network();
  const auto oldest = std::ranges::find_if(half_open_, [&](const Pending& pending) {
    return pending.network == crowd && !pending.handshake.peer_shows_secret();
  });
  if (oldest == half_open_.end()) return false;
  rejections_.add("too many without a handshake", oldest->peer.name());
  half_open_.erase(oldest);
  return true;
}

/// Of those that have not shown the secret.
std::string PendingConnections::largest_network() const {
  std::map<std::string, std::size_t> counts;
  for (const Pending& pending : half_open_) {
    if (!pending.handshake.peer_shows_secret()) ++counts[pending.network];
  }
  const auto by_count = [](const auto& count) { return count.second; };
  return counts.empty() ? std::string() : std::ranges::max_element(counts, {}, by_count)->first;
}

AuthenticatedListener::AuthenticatedListener(UniqueFd listener, const Credentials& credentials,
                                             bool encrypted)
    : pending_(std::move(listener), credentials,
               {.name = "data port", .accepts = {.purpose = {}, .encrypted = encrypted}}) {}

std::optional<AuthenticatedConnection> AuthenticatedListener::admit(Deadline deadline) {
  std::vector<pollfd> events;
  while (proved_.empty()) {
    if (deadline.passed()) return std::nullopt;
    events.clear();
    pending_.append_events(events);
    poll_until(events, Deadline::in(std::min(deadline.left(), pending_.time_left())));
    for (AuthenticatedConnection& connection : pending_.serve(events)) {
      proved_.push_back(std::move(connection));
    }
  }
  AuthenticatedConnection connection = std::move(proved_.front());
  proved_.pop_front();
  return connection;
}

}  // namespace lockstep::comm
