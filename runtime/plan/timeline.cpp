#include "runtime/plan/timeline.h"

#include <algorithm>
#include <deque>
#include <ranges>
#include <utility>
#include <vector>

#include "runtime/plan/holding_policy.h"

namespace lockstep::runtime {
namespace {

/// While the queue exchanges, which takes this share of the core.
struct Interval {
  double begin;
  double end;
  double core_share;
};

/// The two threads of a rank, each with the time at which its work so far ends.
class Threads {
 public:
  void compute(double seconds) {
    while (!exchanging_.empty() && exchanging_.front().end <= walking_) exchanging_.pop_front();
    if (seconds == 0) return;
    for (const Interval& taken : exchanging_) {
      const double before = std::max(0.0, taken.begin - walking_);
      if (seconds <= before) break;
      seconds -= before;
      walking_ += before;
      const double left = 1 - taken.core_share;
      const double possible = (taken.end - walking_) * left;
      if (seconds < possible) {
        walking_ += seconds / left;
        return;
      }
      seconds -= possible;
      walking_ = taken.end;
    }
    walking_ += seconds;
  }

  void exchange_here(const ExchangeTime& time) { walking_ += time.seconds; }

  /// Returns when it ends.
  double exchange_queued(const ExchangeTime& time) {
    const double begin = std::max(queue_, walking_);
    queue_ = begin + time.seconds;
    if (time.seconds > 0) exchanging_.push_back({begin, queue_, time.core_seconds / time.seconds});
    return queue_;
  }
  /// Exchanges that are not done.
  std::size_t pending() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        exchanging_, [this](const Interval& exchange) { return exchange.end > walking_; }));
  }

  void record(std::size_t event, bool queued) {
    if (event >= events_.size()) events_.resize(event + 1);
    events_[event] = queued ? queue_ : walking_;
  }
  void wait(std::size_t event, bool queued) {
    double& thread = queued ? queue_ : walking_;
    thread = std::max(thread, events_[event]);
  }
  void wait_until(double time) { walking_ = std::max(walking_, time); }
  void join() { wait_until(queue_); }

  double now() const { return walking_; }

 private:
  double walking_ = 0;
  double queue_ = 0;
  std::vector<double> events_;
  std::deque<Interval> exchanging_;
};

double seconds_in(const WorkTimes& work, const Step& step) {
  const auto known = work.find({step.kind, step.index});
  return known == work.end() ? 0 : known->second;
}

/// A rank that trains step after step.
class Training {
 public:
  Training(std::span<const PlannedWork> step, std::span<const ExchangeTime> exchanges,
           std::span<const ExchangeTime> rows)
      : step_(step),
        exchanges_(exchanges),
        rows_(rows),
        policy_(static_cast<std::size_t>(std::ranges::count(step.back().steps, true, &Step::may_be_held))) {}

  bool defers() const {
    return std::ranges::any_of(step_, [](const PlannedWork& part) {
      return std::ranges::find(part.steps, true, &Step::deferred) != part.steps.end();
    });
  }

  void run_steps(int count) {
    for (int step = 0; step < count; ++step) {
      for (const PlannedWork& part : step_) {
        for (std::int64_t repeat = 0; repeat < part.repeats; ++repeat) walk(part);
      }
      policy_.follow(vote_);
    }
  }

  /// Of all steps so far.
  Timeline total() const { return {.step = threads_.now(), .compute = compute_, .exchange = exchange_}; }

 private:
  using What = std::pair<bool, std::size_t>;  ///< rows or a bucket

  void walk(const PlannedWork& part) {
    const bool completes = std::exchange(has_left_updates_, false);
    for (const Step& step : part.steps) {
      if (!step.deferred || completes) run(step, part.work);
    }
  }

  void run(const Step& step, const WorkTimes& work) {
    using enum Step::Kind;
    switch (step.kind) {
      case record:
        return threads_.record(step.index, step.queued);
      case wait:
        return threads_.wait(step.index, step.queued);
      case join:
        return threads_.join();
      case all_reduce:
      case all_reduce_inline:
      case gather_rows:
      case gather_rows_inline:
        return step.queued ? hand_over(step) : exchange_here(step);
      case post_held:
        return release_held();
      case await_bucket:
      case await_rows:
        return threads_.wait_until(ends_[{step.kind == await_rows, step.index}]);
      case keep_state:
        has_left_updates_ = true;
        return;
      default: {
        const double seconds = seconds_in(work, step);
        compute_ += seconds;
        threads_.compute(seconds);
      }
    }
  }

  static What what(const Step& step) {
    using enum Step::Kind;
    return {step.kind == gather_rows || step.kind == gather_rows_inline, step.index};
  }
  const ExchangeTime& time_of(What what) const { return (what.first ? rows_ : exchanges_)[what.second]; }

  void exchange_here(const Step& step) {
    const ExchangeTime& time = time_of(what(step));
    exchange_ += time.seconds;
    threads_.exchange_here(time);
  }

  void hand_over(const Step& step) {
    if (step.may_be_held && !policy_.goes_early(offered_++)) return held_.push_back(what(step));
    if (!step.may_be_held && !std::exchange(is_observed_, true))
      vote_ = HoldingPolicy::vote(threads_.pending());
    post(what(step));
  }
  void post(What what) {
    const ExchangeTime& time = time_of(what);
    exchange_ += time.seconds;
    ends_[what] = threads_.exchange_queued(time);
  }
  void release_held() {
    for (const What& held : std::views::reverse(held_)) post(held);
    held_.clear();
    offered_ = 0;
    is_observed_ = false;
  }

  const std::span<const PlannedWork> step_;
  const std::span<const ExchangeTime> exchanges_;
  const std::span<const ExchangeTime> rows_;
  Threads threads_;
  HoldingPolicy policy_;
  std::map<What, double> ends_;
  std::vector<What> held_;
  std::size_t offered_ = 0;  ///< of those that may be held, in this step
  bool is_observed_ = false;
  double vote_ = 0;
  bool has_left_updates_ = false;
  double compute_ = 0;
  double exchange_ = 0;
};

/// Until the number of exchanges that go early has settled, and then to take the mean of, since that number
/// goes up and down.
constexpr int steps_to_settle = 200;
constexpr int steps_to_measure = 100;

/// When the last of the streams ends.
double end_of_streams(std::span<const Step> steps, const WorkTimes& work,
                      std::span<const ExchangeTime> exchanges, std::span<const ExchangeTime> rows,
                      double exchange_share) {
  using enum Step::Kind;
  std::map<StreamName, double> ends;
  std::map<std::size_t, double> events;
  for (const Step& step : steps) {
    double& end = ends[step.stream];
    if (step.kind == record) {
      events[step.index] = end;
    } else if (step.kind == wait) {
      end = std::max(end, events[step.index]);
    } else if (step.kind == all_reduce || step.kind == all_reduce_inline) {
      end += exchange_share * exchanges[step.index].seconds;
    } else if (step.kind == gather_rows || step.kind == gather_rows_inline) {
      end += exchange_share * rows[step.index].seconds;
    } else {
      end += seconds_in(work, step);
    }
  }
  double last = 0;
  for (const auto& [stream, end] : ends) last = std::max(last, end);
  return last;
}

}  // namespace

Timeline simulate_streams(std::span<const Step> steps, const WorkTimes& work,
                          std::span<const ExchangeTime> exchanges, std::span<const ExchangeTime> rows) {
  using enum Step::Kind;
  Timeline timeline{.step = end_of_streams(steps, work, exchanges, rows, 1),
                    .compute = end_of_streams(steps, work, exchanges, rows, 0)};
  for (const Step& step : steps) {
    if (step.kind == all_reduce || step.kind == all_reduce_inline)
      timeline.exchange += exchanges[step.index].seconds;
    if (step.kind == gather_rows || step.kind == gather_rows_inline)
      timeline.exchange += rows[step.index].seconds;
  }
  return timeline;
}

Timeline simulate(std::span<const PlannedWork> step, std::span<const ExchangeTime> exchanges,
                  std::span<const ExchangeTime> rows) {
  Training training(step, exchanges, rows);
  const bool alike = !training.defers();
  training.run_steps(alike ? 1 : steps_to_settle);
  const Timeline before = training.total();
  if (alike) return before;
  training.run_steps(steps_to_measure);
  const Timeline after = training.total();
  return {.step = (after.step - before.step) / steps_to_measure,
          .compute = (after.compute - before.compute) / steps_to_measure,
          .exchange = (after.exchange - before.exchange) / steps_to_measure};
}

}  // namespace lockstep::runtime
