#include "comm/net/pending_connections.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "comm/net/tcp.h"
#include "kernels/base/errno_message.h"

namespace lockstep::comm {
namespace {

constexpr Seconds pause_without_descriptors{0.1};
constexpr Seconds time_between_equal_warnings{5};

}  // namespace

Lobby::Lobby(UniqueFd listener, Credentials credentials, Seconds time_for_hello, std::string what,
             std::string serves)
    : listener_(std::move(listener)),
      credentials_(std::move(credentials)),
      time_for_hello_(time_for_hello),
      what_(std::move(what)),
      serves_(std::move(serves)) {}

int Lobby::port() const {
  return local_port(listener_.get());
}

void Lobby::append_events(std::vector<pollfd>& events, bool accepting) const {
  if (accepting && listening()) events.push_back({listener_.get(), POLLIN, 0});
  for (const Greeting& greeting : half_open_) {
    events.push_back({greeting.fd(), greeting.wanted_events(), 0});
  }
}

Seconds Lobby::time_left() const {
  Seconds least{3600};
  for (const Greeting& greeting : half_open_) least = std::min(least, greeting.deadline().left());
  if (!listening()) least = std::min(least, accept_again_->left());
  return least;
}

std::vector<Guest> Lobby::serve(bool accepting) {
  if (accepting && listening()) accept_newcomers();
  std::vector<Guest> guests;
  for (Greeting& greeting : half_open_) {
    greeting.advance();
    if (greeting.state() == Handshake::State::refused) turn_away(greeting);
    if (greeting.state() != Handshake::State::proved) continue;
    guests.push_back({greeting.take_socket(), greeting.purpose(), greeting.peer()});
  }
  const auto is_over = [](const Greeting& greeting) { return greeting.state() != Handshake::State::pending; };
  half_open_.erase(std::remove_if(half_open_.begin(), half_open_.end(), is_over), half_open_.end());
  return guests;
}

void Lobby::accept_newcomers() {
  while (UniqueFd socket = accept_tcp(listener_.get())) {
    if (half_open_.size() == most_half_open) {
      spdlog::warn("{}: closed the connection from {}: too many without a handshake", what_,
                   half_open_.front().peer());
      half_open_.erase(half_open_.begin());
    }
    half_open_.emplace_back(std::move(socket), Handshake::server(credentials_, serves_),
                            Deadline::in(time_for_hello_));
  }
  if (errno != EMFILE && errno != ENFILE) return;
  spdlog::warn("{}: cannot accept a connection: {}; raise the limit (ulimit -n)", what_,
               errno_message(errno));
  accept_again_ = Deadline::in(pause_without_descriptors);
}

/// Whoever tries again and again is told of once in a while.
void Lobby::turn_away(const Greeting& greeting) {
  if (greeting.problem() == last_problem_ && !warn_again_->passed()) return;
  last_problem_ = greeting.problem();
  warn_again_ = Deadline::in(time_between_equal_warnings);
  spdlog::warn("{}: closed the connection from {}: {}", what_, greeting.peer(), last_problem_);
}

}  // namespace lockstep::comm
