#include "runtime/output/metrics.h"

namespace lockstep::runtime {
namespace {

double per_second(std::int64_t count, Clock::time_point start, Clock::time_point end) {
  const double seconds = Seconds(end - start).count();
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

double milliseconds(std::int64_t nanoseconds, std::int64_t count) {
  return count > 0 ? static_cast<double>(nanoseconds) / 1e6 / static_cast<double>(count) : 0;
}

}  // namespace

void RunMetrics::start() {
  last_ = Clock::now();
  window_.start = last_;
}

void RunMetrics::step_done(const StepTiming& timing, std::int64_t data_wait_ns, std::int64_t samples) {
  const auto now = Clock::now();
  ++steps_;
  if (steps_ == 1) all_.start = now;
  if (steps_ == steady_from_step - 1) steady_.start = now;
  if (steps_ >= 2) all_.samples += samples;
  if (steps_ >= steady_from_step) steady_.samples += samples;

  // The first step warms up caches and page tables; it would spoil a median of few.
  if (steps_ > 1) step_.add(std::chrono::duration_cast<std::chrono::nanoseconds>(now - last_).count());
  exposed_.add(timing.exposed_ns);
  transfer_.add(timing.transfer_ns);
  skew_.add(timing.skew_ns);
  data_wait_.add(data_wait_ns);

  ++window_.steps;
  window_.samples += samples;
  window_.exposed_ns += timing.exposed_ns;
  window_.data_wait_ns += data_wait_ns;
  last_ = now;
}

void RunMetrics::resume() {
  const auto away = Clock::now() - paused_at_;
  for (Clock::time_point* start : {&last_, &all_.start, &steady_.start, &window_.start}) *start += away;
}

Progress RunMetrics::take_window() {
  const auto now = Clock::now();
  Progress progress;
  progress.samples_per_s = per_second(window_.samples, window_.start, now);
  progress.step_ms =
      window_.steps > 0 ? Seconds(now - window_.start).count() * 1e3 / static_cast<double>(window_.steps) : 0;
  progress.exposed_comm_ms = milliseconds(window_.exposed_ns, window_.steps);
  progress.data_wait_ms = milliseconds(window_.data_wait_ns, window_.steps);
  window_ = {.start = now};
  return progress;
}

double RunMetrics::samples_per_s() const {
  const Window& window = steps_ > steady_from_step ? steady_ : all_;
  return per_second(window.samples, window.start, last_);
}

void RunMetrics::fill(Summary& summary) const {
  summary.samples_per_s = samples_per_s();
  summary.step_ms_median = step_.median_ms();
  summary.step_ms_p95 = step_.quantile_ms(0.95);
  summary.comm_ms = transfer_.median_ms();
  summary.exposed_comm_ms = exposed_.median_ms();
  summary.skew_ms = skew_.median_ms();
  summary.data_wait_ms = data_wait_.median_ms();
}

}  // namespace lockstep::runtime
