#include "comm/tcp/store_status.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/signals.h"

namespace lockstep::comm {
namespace {

constexpr const char* abort_key = "abort";

// The store may be closing, or a link may be down: what is not published by then is dropped.
Deadline soon() {
  return Deadline::in(Seconds(0.5));
}

std::string status_key(int rank) {
  return fmt::format("status/{}", rank);
}

}  // namespace

void StoreStatus::publish_status(const std::string& text) noexcept {
  try {
    store_.set(status_key(rank_), text, soon());
  } catch (const std::exception&) {
    // The listener notices a lost store and ends the run; a lost status is no failure.
  }
}

std::string StoreStatus::read_status(int rank) noexcept {
  try {
    return store_.get(status_key(rank), soon()).value_or("");
  } catch (const std::exception&) {
    return {};
  }
}

std::string StoreStatus::publish_abort(const std::string& reason) noexcept {
  try {
    if (store_.compare_and_set(abort_key, std::nullopt, reason, soon())) return reason;
    return store_.get(abort_key, soon()).value_or(reason);
  } catch (const std::exception&) {
    return reason;
  }
}

AbortListener::AbortListener(StoreClient store, NodeRanks& node, std::string holder)
    : store_(std::move(store)), node_(node), holder_(std::move(holder)), stop_(eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) throw DeviceError(fmt::format("cannot open an eventfd: {}", errno_message(errno)));
  const SignalsBlocked scope;
  thread_ = std::thread(&AbortListener::listen, this);
}

StoreStatus::~StoreStatus() {
  try {
    store_.say_goodbye(soon());
  } catch (const std::exception&) {
    // Then the store reports this rank as lost, which matters only while the run goes on.
  }
}

AbortListener::~AbortListener() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void AbortListener::listen() {
  try {
    store_.watch(abort_key, soon());
    while (true) {
      while (const auto change = store_.take_change()) node_.abort(change->value);
      pollfd events[] = {{stop_.get(), POLLIN, 0}, {store_.fd(), POLLIN, 0}};
      if (poll(events, 2, -1) >= 0 && events[0].revents != 0) return store_.say_goodbye(soon());
    }
  } catch (const std::exception& error) {
    node_.abort(fmt::format("{} was lost: {}", holder_, error.what()));
  }
}

}  // namespace lockstep::comm
