#include "runtime/plan/timeline.h"

#include <algorithm>
#include <vector>

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
    if (seconds == 0) return;
    for (const Interval& taken : exchanging_) {
      if (taken.end <= walking_) continue;
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

  void exchange_queued(const ExchangeTime& time) {
    const double begin = queue_;
    queue_ += time.seconds;
    if (time.seconds > 0) exchanging_.push_back({begin, queue_, time.core_seconds / time.seconds});
  }

  void record(std::size_t event, bool queued) {
    if (event >= events_.size()) events_.resize(event + 1);
    events_[event] = queued ? queue_ : walking_;
  }
  void wait(std::size_t event, bool queued) {
    double& thread = queued ? queue_ : walking_;
    thread = std::max(thread, events_[event]);
  }
  void join() { walking_ = std::max(walking_, queue_); }

  double end() const { return walking_; }

 private:
  double walking_ = 0;
  double queue_ = 0;
  std::vector<double> events_;
  std::vector<Interval> exchanging_;
};

double seconds_in(const WorkTimes& work, const Step& step) {
  const auto known = work.find({step.kind, step.index});
  return known == work.end() ? 0 : known->second;
}

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

Timeline simulate(std::span<const Step> steps, const WorkTimes& work, std::span<const ExchangeTime> exchanges,
                  std::span<const ExchangeTime> rows) {
  using enum Step::Kind;
  Threads threads;
  Timeline timeline;
  for (const Step& step : steps) {
    switch (step.kind) {
      case record:
        threads.record(step.index, step.queued);
        break;
      case wait:
        threads.wait(step.index, step.queued);
        break;
      case join:
        threads.join();
        break;
      case all_reduce:
      case all_reduce_inline:
      case gather_rows:
      case gather_rows_inline: {
        const bool is_sum = step.kind == all_reduce || step.kind == all_reduce_inline;
        const ExchangeTime& time = is_sum ? exchanges[step.index] : rows[step.index];
        timeline.exchange += time.seconds;
        step.queued ? threads.exchange_queued(time) : threads.exchange_here(time);
        break;
      }
      default: {
        const double seconds = seconds_in(work, step);
        timeline.compute += seconds;
        threads.compute(seconds);
      }
    }
  }
  timeline.step = threads.end();
  return timeline;
}

}  // namespace lockstep::runtime
