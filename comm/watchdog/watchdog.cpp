#include "comm/watchdog/watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <utility>
#include <vector>

#include "kernels/base/host.h"
#include "kernels/base/signals.h"

namespace lockstep::comm {
namespace {

constexpr std::chrono::seconds status_interval{1};

// An abort is a word in shared memory, which does not wake this thread.
constexpr std::chrono::milliseconds poll_interval{50};

/// A rank without a final status by then counts as lost or hung.
constexpr Seconds time_for_final_statuses{0.6};

}  // namespace

Watchdog::Watchdog(NodeStatus& node, int ranks, RemoteStatus* remote)
    : node_(node), ranks_(ranks), remote_(remote), host_(host_name()) {
  publish(false);
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
  if (!published_last_ && node_.aborted()) publish(true);
}

void Watchdog::set_hooks(WatchHooks hooks) {
  const std::lock_guard lock(mutex_);
  hooks_ = std::move(hooks);
}

void Watchdog::run() {
  Clock::time_point next_status = Clock::now() + status_interval;
  std::optional<Clock::time_point> failed_at;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (stopped_.wait_for(lock, poll_interval, [this] { return stopping_; })) return;
    }
    const auto now = Clock::now();
    if (!failed_at && node_.aborted()) {
      failed_at = now;
      published_last_ = true;
      publish(true);
    } else if (!failed_at && now >= next_status) {
      next_status = now + status_interval;
      publish(false);
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

void Watchdog::publish(bool last) {
  RankStatus status{.rank = node_.rank(),
                    .host = host_,
                    .pid = static_cast<int>(getpid()),
                    .call = node_.call_number(),
                    .last = last};
  {
    const std::lock_guard lock(mutex_);
    status.beat = ++beats_;
    status.where = describe();
  }
  const std::string text = to_text(status);
  node_.publish_status(text);
  if (remote_ == nullptr) return;
  const std::lock_guard lock(remote_mutex_);
  if (last) {
    std::string cause = remote_->publish_abort(node_.abort_reason());
    const std::lock_guard cause_lock(mutex_);
    cause_ = std::move(cause);
  }
  remote_->publish_status(text);
}

std::string Watchdog::describe() const {
  std::string text = hooks_.position ? hooks_.position() : std::string();
  const std::string call = node_.describe_call();
  return fmt::format("{}{}{}", text, text.empty() || call.empty() ? "" : "; ", call);
}

std::optional<RankStatus> Watchdog::read(int rank) {
  if (const auto text = node_.read_status(rank)) return parse_status(*text);
  if (remote_ == nullptr) return std::nullopt;
  const std::lock_guard lock(remote_mutex_);
  return parse_status(remote_->read_status(rank));
}

FailureReport Watchdog::report() {
  const std::lock_guard one_at_a_time(report_mutex_);
  if (!report_) report_ = collect_statuses();
  return *report_;
}

std::optional<FailureReport> Watchdog::failure_report() {
  if (!node_.aborted()) return std::nullopt;
  return report();
}

FailureReport Watchdog::collect_statuses() {
  FailureReport report{.ranks = std::vector<RankStatus>(static_cast<std::size_t>(ranks_))};
  const Deadline deadline = Deadline::in(time_for_final_statuses);
  bool all_final = false;
  while (!all_final) {
    all_final = true;
    for (RankStatus& status : report.ranks) {
      const int rank = static_cast<int>(&status - report.ranks.data());
      // The store may close before the last read: keep what was read.
      if (!status.last) status = read(rank).value_or(status.pid != 0 ? status : RankStatus{.rank = rank});
      all_final = all_final && status.last;
    }
    if (deadline.passed()) break;
    std::unique_lock lock(mutex_);
    stopped_.wait_for(lock, poll_interval);
  }
  for (const RankStatus& status : report.ranks) {
    if (!status.last) report.missing.push_back(status.rank);
  }
  const std::lock_guard lock(mutex_);
  report.cause = cause_.empty() ? node_.abort_reason() : cause_;
  // The rank that noticed first may have waited for one that itself waited for a missing rank.
  if (!report.missing.empty()) {
    report.cause = fmt::format("{} {} not answer; {}", name_of_ranks(report.missing),
                               report.missing.size() == 1 ? "does" : "do", report.cause);
  }
  return report;
}

}  // namespace lockstep::comm
