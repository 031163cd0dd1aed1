#include "comm/watchdog/watchdog.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "comm/shm/status_slot.h"
#include "kernels/base/host.h"
#include "kernels/base/signals_blocked.h"

namespace lockstep::comm {
namespace {

constexpr std::chrono::seconds time_between_beats{1};

// An abort is a word in shared memory that rings no bell for this thread.
constexpr std::chrono::milliseconds time_between_looks{50};

/// A rank that has not said its last words by then is taken for lost or hung.
constexpr Seconds time_for_last_words{0.6};

}  // namespace

Watchdog::Watchdog(NodeRanks& node, int ranks, RemoteStatus* remote)
    : node_(node), ranks_(ranks), remote_(remote), host_(host_name()) {
  beat(false);
  const SignalsBlocked scope;
  thread_ = std::thread(&Watchdog::run, this);
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  thread_.join();
  if (!said_last_ && node_.shared().aborted()) beat(true);
}

void Watchdog::set_hooks(WatchHooks hooks) {
  const std::lock_guard lock(mutex_);
  hooks_ = std::move(hooks);
}

void Watchdog::run() {
  Clock::time_point next_beat = Clock::now() + time_between_beats;
  std::optional<Clock::time_point> failed_at;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (stopped_.wait_for(lock, time_between_looks, [this] { return stopping_; })) return;
    }
    const auto now = Clock::now();
    if (!failed_at && node_.shared().aborted()) {
      failed_at = now;
      said_last_ = true;
      beat(true);
    } else if (!failed_at && now >= next_beat) {
      next_beat = now + time_between_beats;
      beat(false);
    }
    if (failed_at && now - *failed_at >= hooks().grace) {
      if (const auto overdue = hooks().overdue) overdue(report());
      return;
    }
  }
}

WatchHooks Watchdog::hooks() const {
  const std::lock_guard lock(mutex_);
  return hooks_;
}

void Watchdog::beat(bool last) {
  RankStatus status{.rank = node_.members().rank(),
                    .host = host_,
                    .pid = static_cast<int>(getpid()),
                    .call = node_.call_number(),
                    .last = last};
  {
    const std::lock_guard lock(mutex_);
    status.beat = ++beats_;
    status.where = describe();
  }
  node_.shared().status_slot(node_.index()).write(to_text(status, StatusSlot::most_bytes));
  if (remote_ == nullptr) return;
  const std::lock_guard lock(remote_mutex_);
  if (last) {
    std::string cause = remote_->publish_abort(node_.shared().abort_reason());
    const std::lock_guard cause_lock(mutex_);
    cause_ = std::move(cause);
  }
  remote_->publish_status(to_text(status, StatusSlot::most_bytes));
}

std::string Watchdog::describe() const {
  std::string text = hooks_.position ? hooks_.position() : std::string();
  const std::string call = node_.describe_call();
  return fmt::format("{}{}{}", text, text.empty() || call.empty() ? "" : "; ", call);
}

std::optional<RankStatus> Watchdog::read(int rank) {
  const auto& here = node_.members().ranks;
  const auto member = std::ranges::find(here, rank);
  std::string text;
  if (member != here.end()) {
    text = node_.shared().status_slot(static_cast<int>(member - here.begin())).read();
  } else if (remote_ != nullptr) {
    const std::lock_guard lock(remote_mutex_);
    text = remote_->read_status(rank);
  }
  return parse_status(text);
}

FailureReport Watchdog::report() {
  const std::lock_guard one_at_a_time(report_mutex_);
  if (!report_) report_ = ask_everybody();
  return *report_;
}

std::optional<FailureReport> Watchdog::failure_report() {
  if (!node_.shared().aborted()) return std::nullopt;
  return report();
}

FailureReport Watchdog::ask_everybody() {
  FailureReport report{.ranks = std::vector<RankStatus>(static_cast<std::size_t>(ranks_))};
  const Deadline deadline = Deadline::in(time_for_last_words);
  bool all_spoke = false;
  while (!all_spoke) {
    all_spoke = true;
    for (RankStatus& status : report.ranks) {
      const int rank = static_cast<int>(&status - report.ranks.data());
      // The store may go before the last look: what was read stays.
      if (!status.last) status = read(rank).value_or(status.pid != 0 ? status : RankStatus{.rank = rank});
      all_spoke = all_spoke && status.last;
    }
    if (deadline.passed()) break;
    std::unique_lock lock(mutex_);
    stopped_.wait_for(lock, time_between_looks);
  }
  for (const RankStatus& status : report.ranks) {
    if (!status.last) report.missing.push_back(status.rank);
  }
  const std::lock_guard lock(mutex_);
  report.cause = cause_.empty() ? node_.shared().abort_reason() : cause_;
  // Whoever noticed first may have waited for a rank that itself waited for the culprit.
  if (!report.missing.empty()) {
    report.cause = fmt::format("{} {} not answer; {}", name_of_ranks(report.missing),
                               report.missing.size() == 1 ? "does" : "do", report.cause);
  }
  return report;
}

}  // namespace lockstep::comm
