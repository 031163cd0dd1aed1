#include "runtime/performance/timeline.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/plan/bucket.h"
#include "runtime/plan/held_exchanges.h"

namespace lockstep::runtime {
namespace {

/// The two threads of a rank. Time goes on with the work of the one that walks; meanwhile the other's
/// exchanges get done.
class Threads {
 public:
  /// As a number of exchanges.
  using Ticket = std::size_t;

  void compute(double seconds) {
    while (seconds > 0 && !queue_.empty()) {
      Exchange& exchange = queue_.front();
      const double behind = exchange.time.behind_compute();
      const double left = exchange.part_left * behind;
      const double speed = behind > 0 ? std::max(0.0, 1 - exchange.time.core_seconds / behind) : 1;
      if (seconds < left * speed) {
        exchange.part_left -= seconds / speed / behind;
        now_ += seconds / speed;
        return;
      }
      seconds -= left * speed;
      now_ += left;
      finish();
    }
    now_ += seconds;
  }

  void exchange_here(const ExchangeTime& time) { now_ += time.seconds; }
  Ticket post(const ExchangeTime& time) {
    queue_.push_back({time});
    return posted();
  }
  void wait(Ticket until) {
    while (done_ < until) {
      now_ += queue_.front().part_left * queue_.front().time.seconds;
      finish();
    }
  }
  Ticket posted() const { return done_ + queue_.size(); }

  double now() const { return now_; }

 private:
  struct Exchange {
    ExchangeTime time;
    double part_left = 1;
  };
  void finish() {
    queue_.pop_front();
    ++done_;
  }

  double now_ = 0;
  std::deque<Exchange> queue_;
  std::size_t done_ = 0;
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
      : step_(step), exchanges_(exchanges), rows_(rows), held_(step.back().steps) {}

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
      held_.follow(share_);
    }
  }

  /// Of all steps so far.
  Timeline total() const {
    return {.step = threads_.now(), .compute = compute_, .exchange = exchange_, .held = left_};
  }

 private:
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
        events_[step.index] = threads_.posted();
        return;
      case wait:
        return step.queued ? void() : threads_.wait(events_[step.index]);
      case join:
        return threads_.wait(threads_.posted());
      case all_reduce:
      case all_reduce_inline:
      case gather_rows:
      case gather_rows_inline:
        return step.queued ? hand_over(step) : exchange_here(step);
      case hand_over_held:
        return release_held();
      case await_bucket:
      case await_rows:
        return threads_.wait(tickets_[ExchangeCall{.is_rows = step.kind == await_rows, .index = step.index}]);
      case gather_parameters:
        return;  // its half is in the time of the bucket's all-reduce
      case keep_state:
        has_left_updates_ = true;
        return;
      case begin_step:
      case launch:
      case sum_statistics:
      case add_rows:
      case await_compute:
      case clip:
      case update:
      case average:
      case end_step: {
        const double seconds = seconds_in(work, step);
        compute_ += seconds;
        threads_.compute(seconds);
      }
    }
  }

  static ExchangeCall call_of(const Step& step) {
    using enum Step::Kind;
    return {.is_rows = step.kind == gather_rows || step.kind == gather_rows_inline, .index = step.index};
  }
  const ExchangeTime& time_of(const ExchangeCall& call) const {
    return (call.is_rows ? rows_ : exchanges_)[call.index];
  }

  void exchange_here(const Step& step) {
    const ExchangeTime& time = time_of(call_of(step));
    exchange_ += time.seconds;
    threads_.exchange_here(time);
  }

  void hand_over(const Step& step) {
    if (!step.held) return post(call_of(step));
    if (!first_ready_) first_ready_ = threads_.now();
    held_.offer(call_of(step), [this](const ExchangeCall& call) { post(call); });
  }
  void post(const ExchangeCall& call) {
    const ExchangeTime& time = time_of(call);
    exchange_ += time.seconds;
    behind_compute_ += time.behind_compute();
    tickets_[call] = threads_.post(time);
  }
  void release_held() {
    if (first_ready_) measure();
    first_ready_.reset();
    left_ += static_cast<double>(held_.size());
    held_.release([this](const ExchangeCall& call) { post(call); });
  }
  void measure() {
    const double exchange = std::exchange(behind_compute_, 0) / static_cast<double>(tickets_.size());
    share_ = exchange / (threads_.now() - *first_ready_);
  }

  const std::span<const PlannedWork> step_;
  const std::span<const ExchangeTime> exchanges_;
  const std::span<const ExchangeTime> rows_;
  Threads threads_;
  HeldExchanges<ExchangeCall> held_;
  std::map<std::size_t, Threads::Ticket> events_;  ///< of exchanges before them
  std::map<ExchangeCall, Threads::Ticket> tickets_;
  std::optional<double> first_ready_;  ///< in this backward
  double behind_compute_ = 0;          ///< of the exchanges of a step
  double share_ = 0;
  bool has_left_updates_ = false;
  double compute_ = 0;
  double exchange_ = 0;
  double left_ = 0;  ///< exchanges that were held
};

/// Until the share that an exchange takes has settled, and then to take the mean of: which are held follows
/// from it, and it from them.
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
          .exchange = (after.exchange - before.exchange) / steps_to_measure,
          .held = (after.held - before.held) / steps_to_measure};
}

}  // namespace lockstep::runtime
