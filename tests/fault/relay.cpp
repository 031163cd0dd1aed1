#include "tests/fault/relay.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <vector>

#include "comm/polling.h"

namespace lockstep::comm::testing {
namespace {

constexpr Seconds patience{5};

}  // namespace

Relay::Relay(UniqueFd listener, int target_port, Alter alter)
    : listener_(std::move(listener)),
      target_port_(target_port),
      alter_(std::move(alter)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      thread_(&Relay::run, this) {}

Relay::~Relay() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

std::string Relay::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

void Relay::run() {
  while (true) {
    std::vector<pollfd> events{{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const Pair& pair : pairs_) {
      events.push_back({pair.client.get(), POLLIN, 0});
      events.push_back({pair.server.get(), POLLIN, 0});
    }
    poll_until(events, Deadline::in(patience));
    if (events[0].revents != 0) return;
    std::size_t event = 2;
    for (auto pair = pairs_.begin(); pair != pairs_.end(); event += 2) {
      const bool is_open = (events[event].revents == 0 || pass_on(pair->up)) &&
                           (events[event + 1].revents == 0 || pass_on(pair->down));
      pair = is_open ? std::next(pair) : pairs_.erase(pair);
    }
    if (events[1].revents != 0) admit();
  }
}

void Relay::admit() {
  UniqueFd client = accept_tcp(listener_.get());
  std::string obstacle;
  UniqueFd server = connect_tcp("127.0.0.1", target_port_, Deadline::in(patience), obstacle);
  if (!client || !server) return;
  const Way up{.from = client.get(), .to = server.get(), .to_client = false};
  const Way down{.from = server.get(), .to = client.get(), .to_client = true};
  pairs_.push_back({std::move(client), std::move(server), up, down});
}

bool Relay::pass_on(Way& way) {
  std::string bytes(std::size_t{1} << 16, '\0');
  const ssize_t got = recv(way.from, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got <= 0) return got < 0 && errno == EAGAIN;
  bytes.resize(static_cast<std::size_t>(got));
  {
    const std::lock_guard lock(mutex_);
    seen_ += bytes;
  }
  if (alter_) alter_(bytes, way.passed, way.to_client);
  way.passed += bytes.size();
  for (std::string_view rest = bytes; !rest.empty();) {
    if (send_some(way.to, rest) == Transfer::closed) return false;
    if (!rest.empty()) wait_for_socket(way.to, POLLOUT, Deadline::in(patience));
  }
  return true;
}

}  // namespace lockstep::comm::testing
