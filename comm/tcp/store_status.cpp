#include "comm/tcp/store_status.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>

#include <fmt/format.h>

#include "comm/net/tcp.h"
#include "comm/rendezvous/start.h"
#include "kernels/base/error.h"
#include "kernels/base/signals.h"

namespace lockstep::comm {
namespace {

constexpr const char* report_key = "report";

/// The store may be closing, or its rank suspended: what is not answered by then is left.
constexpr Seconds time_to_answer{0.5};
/// Of a store that is late already, whose rank the report must still name in time.
constexpr Seconds time_when_late{0.05};

Deadline soon() {
  return Deadline::in(time_to_answer);
}

std::string status_key(int rank) {
  return fmt::format("status/{}", rank);
}

}  // namespace

StoreStatus::StoreStatus(Connect connect, const std::vector<Link>& links, int rank, Deadline deadline)
    : connect_(std::move(connect)), store_(connect_(deadline)), links_(links), rank_(rank) {}

template <class Call>
auto StoreStatus::answer_of(Call call) {
  const bool was_late = is_late_ && !store_.has_all_answers();
  is_late_ = true;
  auto answer = call(Deadline::in(was_late ? time_when_late : time_to_answer));
  is_late_ = false;
  return answer;
}

void StoreStatus::publish_heartbeat(const std::string& text) noexcept {
  try {
    if (store_.fd() < 0) store_ = connect_(soon());
    is_late_ = !store_.has_all_answers();
    if (!is_late_) store_.post(status_key(rank_), text);
  } catch (const std::exception&) {
    // The listener notices a lost store and ends the run; a lost heartbeat is no failure.
  }
}

void StoreStatus::publish_final_status(const std::string& text) noexcept {
  try {
    answer_of([&](const Deadline& deadline) {
      store_.set(status_key(rank_), text, deadline);
      return true;
    });
  } catch (const std::exception&) {
    // Then the ranks of other nodes know this one by its connections.
  }
}

std::optional<std::string> StoreStatus::read_status(int rank) noexcept {
  try {
    if (is_late_ && !store_.has_all_answers()) return std::nullopt;
    return answer_of([&](const Deadline& deadline) { return store_.get(status_key(rank), deadline); })
        .value_or("");
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::string StoreStatus::publish_abort(const std::string& reason) noexcept {
  try {
    const bool is_first = answer_of([&](const Deadline& deadline) {
      return store_.compare_and_set(abort_key, std::nullopt, reason, deadline);
    });
    if (is_first) return reason;
    return answer_of([&](const Deadline& deadline) { return store_.get(abort_key, deadline); })
        .value_or(reason);
  } catch (const std::exception&) {
    return reason;
  }
}

std::vector<int> StoreStatus::lost_ranks() noexcept {
  std::vector<int> ranks;
  for (const Link& link : links_) {
    if (is_cut_off(link.fd())) ranks.push_back(link.rank());
  }
  try {
    if (!store_.has_all_answers()) ranks.push_back(0);  // it holds the store
  } catch (const std::exception&) {
    // Whether rank 0 is gone with its store shows by its data connection.
  }
  return ranks;
}

bool StoreStatus::claim_report(const std::string& cause) noexcept {
  try {
    return store_.compare_and_set(report_key, std::nullopt, cause, soon());  // late or not: one alone prints
  } catch (const std::exception&) {
    return true;
  }
}

StoreStatus::~StoreStatus() {
  try {
    store_.say_goodbye(soon());
  } catch (const std::exception&) {
    // Then the store logs that the connection closed.
  }
}

AbortListener::AbortListener(StoreClient store, NodeRanks& node, Watchdog& watchdog, std::string holder,
                             Deadline deadline)
    : store_(std::move(store)),
      node_(node),
      watchdog_(watchdog),
      holder_(std::move(holder)),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) throw DeviceError(fmt::format("cannot open an eventfd: {}", errno_message(errno)));
  store_.watch(abort_key, deadline);
  store_.watch(report_key, deadline);
  const SignalsBlocked scope;
  thread_ = std::thread(&AbortListener::listen, this);
}

AbortListener::~AbortListener() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void AbortListener::listen() {
  try {
    while (true) {
      while (auto change = store_.take_change()) {
        if (change->key == report_key)
          watchdog_.yield_report(std::move(change->value));
        else
          node_.abort(change->value);
      }
      pollfd events[] = {{stop_.get(), POLLIN, 0}, {store_.fd(), POLLIN, 0}};
      if (poll(events, 2, -1) >= 0 && events[0].revents != 0) return store_.say_goodbye(soon());
    }
  } catch (const std::exception& error) {
    node_.abort(fmt::format("{} was lost: {}", holder_, error.what()));
  }
}

}  // namespace lockstep::comm
