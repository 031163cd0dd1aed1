#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "runtime/plan/schedule.h"

namespace lockstep::runtime {

/// Seconds of a step's work on one rank, by kind and index; what is missing takes none.
using WorkTimes = std::map<std::pair<Step::Kind, std::size_t>, double>;

/// What the exchange of one bucket takes.
struct ExchangeTime {
  double seconds = 0;       ///< from its begin until the sum is in place
  double core_seconds = 0;  ///< of them on a core that also computes, which then stands still
  double busy_seconds = 0;  ///< instead of `seconds` while that core computes, if more: it waits for the core

  double behind_compute() const { return busy_seconds > seconds ? busy_seconds : seconds; }
};

/// Where the time of a step goes, in seconds.
struct Timeline {
  double step = 0;
  double compute = 0;   ///< all work but the exchanges
  double exchange = 0;  ///< of all buckets, hidden or not
  double held = 0;      ///< how many exchanges a step leaves to the next one's forward

  /// What the exchange adds to the step.
  double exposed() const { return step - compute; }
};

/// Micro-batches of a step that run one after another by one plan.
struct PlannedWork {
  std::span<const Step> steps;
  const WorkTimes& work;
  std::int64_t repeats = 1;
};

/// The timeline of a step whose schedules are for exchanges on the host: one thread walks them, and the
/// exchange queue runs what is queued, in order. An exchange has its share of the core first; compute behind
/// it goes on with the rest, and it with the pace that it has then. Where updates are left to the next step,
/// of one among many: exchanges are held back as in a run (`HeldExchanges`), and the mean is that of steps
/// after it has settled. `exchanges`: by bucket; `rows`: by slice of rows.
Timeline simulate(std::span<const PlannedWork> step, std::span<const ExchangeTime> exchanges,
                  std::span<const ExchangeTime> rows = {});

/// The same for exchanges that are enqueued on a stream of their own (`ScheduleOptions::stream_ordered`): two
/// streams run beside each other, each in its order, and neither slows the other. `compute` is what the step
/// would take if exchanges took no time.
Timeline simulate_streams(std::span<const Step> steps, const WorkTimes& work,
                          std::span<const ExchangeTime> exchanges, std::span<const ExchangeTime> rows = {});

}  // namespace lockstep::runtime
