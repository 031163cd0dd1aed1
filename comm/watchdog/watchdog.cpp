#include "comm/watchdog/watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "kernels/base/host.h"
#include "kernels/base/log.h"
#include "kernels/base/signals.h"

namespace lockstep::comm {
namespace {

constexpr std::chrono::seconds status_interval{1};
/// While long work advances, so that peers with a short time-out see it.
constexpr std::chrono::milliseconds working_interval{200};

// An abort is a word in shared memory, which does not wake this thread.
constexpr std::chrono::milliseconds poll_interval{50};

/// A rank without a final status by then counts as lost or hung.
constexpr Seconds time_for_final_statuses{0.6};

/// When the store is lost, other nodes may notice that a little later; who sees only its own node asks which
/// connections of its ranks are closed, after all those of a killed process are, and before a healthy rank
/// leaves.
constexpr Seconds time_without_store{1.1};
constexpr Seconds time_to_close_connections{0.25};

}  // namespace

Watchdog::Watchdog(NodeStatus& node, int ranks, RemoteStatus* remote)
    : node_(node), ranks_(ranks), remote_(remote), host_(host_name()), heartbeats_(node.rank(), ranks) {
  publish_heartbeat();
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
  if (!has_final_status_ && node_.aborted()) publish_final_status({});
}

void Watchdog::set_hooks(WatchHooks hooks) {
  const std::lock_guard lock(mutex_);
  hooks_ = std::move(hooks);
}

void Watchdog::run() {
  Clock::time_point next_status = Clock::now() + status_interval;
  bool knows_lost_ranks = remote_ == nullptr;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (stopped_.wait_for(lock, poll_interval, [this] { return stopping_; })) return;
    }
    const auto now = Clock::now();
    if (!failed_at_ && node_.aborted()) {
      {
        const std::lock_guard lock(mutex_);
        failed_at_ = now;
      }
      has_final_status_ = true;
      publish_final_status({});
    } else if (!failed_at_ && (now >= next_status || has_advanced(now - next_status + status_interval))) {
      next_status = now + status_interval;
      publish_heartbeat();
      tell_of_silent_ranks(now);
    }
    if (failed_at_ && !knows_lost_ranks && now - *failed_at_ >= time_to_close_connections) {
      knows_lost_ranks = true;
      if (const std::vector<int> lost = lost_ranks(); !lost.empty()) publish_final_status(lost);
    }
    if (failed_at_ && now - *failed_at_ >= hooks().grace) {
      if (const auto overdue = hooks().overdue) overdue(report());
      return;
    }
  }
}

bool Watchdog::has_advanced(Clock::duration since_last_status) const {
  if (since_last_status < working_interval) return false;
  const std::lock_guard lock(mutex_);
  return hooks_.progress && hooks_.progress() != published_progress_;
}

WatchHooks Watchdog::hooks() const {
  const std::lock_guard lock(mutex_);
  return hooks_;
}

RankStatus Watchdog::status() {
  const std::lock_guard lock(mutex_);
  if (hooks_.progress) published_progress_ = hooks_.progress();
  return {.rank = node_.rank(),
          .host = host_,
          .pid = static_cast<int>(getpid()),
          .beat = ++beats_,
          .call = node_.call_number(),
          .lost = {},
          .progress = published_progress_,
          .where = describe()};
}

std::vector<int> Watchdog::lost_ranks() {
  const std::lock_guard lock(remote_mutex_);
  return remote_->lost_ranks();
}

void Watchdog::publish_heartbeat() {
  const std::string text = to_text(status());
  node_.publish_status(text);
  if (remote_ == nullptr) return;
  const std::lock_guard lock(remote_mutex_);
  remote_->publish_heartbeat(text);
}

void Watchdog::publish_final_status(std::vector<int> lost) {
  RankStatus final_status = status();
  final_status.last = true;
  final_status.lost = std::move(lost);
  const std::string text = to_text(final_status);
  node_.publish_status(text);
  if (remote_ == nullptr) return;
  const std::lock_guard lock(remote_mutex_);
  if (std::string cause = first_cause(); cause.empty()) {
    cause = remote_->publish_abort(node_.abort_reason());
    const std::lock_guard cause_lock(mutex_);
    cause_ = std::move(cause);
  }
  remote_->publish_final_status(text);
}

std::string Watchdog::first_cause() const {
  const std::lock_guard lock(mutex_);
  return cause_;
}

void Watchdog::yield_report(std::string cause) {
  const std::lock_guard lock(mutex_);
  yielded_cause_ = std::move(cause);
}

std::string Watchdog::yielded_cause() const {
  const std::lock_guard lock(mutex_);
  return yielded_cause_;
}

std::string Watchdog::describe() const {
  std::string text = hooks_.position ? hooks_.position() : std::string();
  const std::string call = node_.describe_call();
  return fmt::format("{}{}{}", text, text.empty() || call.empty() ? "" : "; ", call);
}

void Watchdog::tell_of_silent_ranks(Clock::time_point now) {
  const std::string text = heartbeats_.look(now, [this](int rank) { return status_of(rank); });
  if (!text.empty()) log::warn(text);
}

std::optional<RankStatus> Watchdog::status_of(int rank) {
  std::optional<std::string> text = node_.read_status(rank);
  if (!text && remote_ != nullptr) {
    const std::lock_guard lock(remote_mutex_);
    text = remote_->read_status(rank);
  }
  if (!text) return std::nullopt;
  const auto status = parse_status(*text);
  return status && status->rank == rank ? status : RankStatus{.rank = rank};
}

std::vector<int> Watchdog::ranks_behind() {
  const std::uint32_t call = node_.call_number();
  std::vector<int> behind;
  // Once a rank has aborted its reason stays, and nobody needs the rest.
  for (int rank = 0; rank < ranks_ && !node_.aborted(); ++rank) {
    if (rank == node_.rank()) continue;
    const auto status = status_of(rank);
    const bool is_known = status && status->pid != 0;
    if (is_known && static_cast<std::int32_t>(status->call - call) < 0) behind.push_back(rank);
  }
  return behind;
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

/// When the watchdog noticed, so that a late caller does not wait again for those that are gone.
Clock::time_point Watchdog::failure_time() const {
  const std::lock_guard lock(mutex_);
  return failed_at_.value_or(Clock::now());
}

FailureReport Watchdog::collect_statuses() {
  FailureReport report{.cause = {}, .ranks = std::vector<RankStatus>(static_cast<std::size_t>(ranks_))};
  std::vector<bool> is_known(report.ranks.size());
  std::set<int> lost;
  const auto is_judged = [&](const RankStatus& status) {
    return is_known[static_cast<std::size_t>(status.rank)] || lost.contains(status.rank);
  };
  const auto start = failure_time();
  while (true) {
    for (RankStatus& status : report.ranks) {
      const std::size_t rank = static_cast<std::size_t>(&status - report.ranks.data());
      status.rank = static_cast<int>(rank);
      const auto newest = status_of(status.rank);
      is_known[rank] = is_known[rank] || newest;
      // The store may close before the last read: keep what was read.
      if (newest && (newest->pid != 0 || status.pid == 0)) status = *newest;
    }
    // Who prints the report may leave, and the store with it.
    if (std::ranges::all_of(report.ranks, &RankStatus::last) || !yielded_cause().empty()) break;
    for (const RankStatus& status : report.ranks) lost.insert(status.lost.begin(), status.lost.end());
    const bool knows_all = std::ranges::all_of(report.ranks, is_judged);
    if (Clock::now() - start >= (knows_all ? time_for_final_statuses : time_without_store)) break;
    std::unique_lock lock(mutex_);
    stopped_.wait_for(lock, poll_interval);
  }
  for (const RankStatus& status : report.ranks) {
    if (!status.last && is_judged(status)) report.missing.push_back(status.rank);
  }
  settle(report);
  return report;
}

void Watchdog::settle(FailureReport& report) {
  const auto& missing = report.missing;
  report.cause = yielded_cause();
  if (!report.cause.empty()) return;
  report.cause = first_cause();
  if (report.cause.empty()) report.cause = node_.abort_reason();
  // The rank that noticed first may have waited for one that itself waited for a missing rank.
  if (!missing.empty()) {
    report.cause = fmt::format("{} {} not answer; {}", name_of_ranks(missing),
                               missing.size() == 1 ? "does" : "do", report.cause);
  }
  // One that was killed behind its final status prints nothing; if it is gone because it has printed, the
  // claim is taken.
  const auto lowest = std::ranges::find_if(report.ranks, [&](const RankStatus& status) {
    return std::ranges::find(missing, status.rank) == missing.end() && !node_.has_lost(status.rank);
  });
  const bool prints = lowest != report.ranks.end() && lowest->rank == node_.rank() && node_.claim_report();
  if (!prints) return;
  const std::lock_guard lock(remote_mutex_);
  *report.unprinted = remote_ == nullptr || remote_->claim_report(report.cause);
}

}  // namespace lockstep::comm
