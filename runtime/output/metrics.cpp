#include "runtime/output/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include <chrono>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "kernels/base/number.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::runtime {
namespace {

double per_second(std::int64_t count, Clock::time_point start, Clock::time_point end) {
  const double seconds = Seconds(end - start).count();
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

double milliseconds(std::int64_t nanoseconds, std::int64_t count) {
  return count > 0 ? static_cast<double>(nanoseconds) / 1e6 / static_cast<double>(count) : 0;
}

// The kernel walks the page tables for it: 1.3 ms where the model is small. Memory grows early in a run.
constexpr std::chrono::milliseconds first_interval{100};
constexpr std::chrono::milliseconds longest_interval{3200};

/// The "Pss:" line of smaps_rollup, which is in kB (proc(5)); 0 when the kernel has no such file.
std::int64_t proportional_set_size() {
  const UniqueFd file(::open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC));
  std::array<char, 2048> text{};
  const ssize_t length = file.get() < 0 ? 0 : ::read(file.get(), text.data(), text.size());
  std::string_view rest(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  const std::size_t line = rest.find("\nPss:");
  if (line == std::string_view::npos) return 0;
  rest.remove_prefix(line + 5);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return leading_number<std::int64_t>(rest) * 1024;
}

}  // namespace

double Measurements::quantile_ms(double share) const {
  if (values_.empty()) return 0;
  std::vector<std::int64_t> sorted = values_;
  const auto at =
      sorted.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(sorted.size() - 1));
  std::nth_element(sorted.begin(), at, sorted.end());
  return static_cast<double>(*at) / 1e6;
}

std::vector<std::int64_t> Measurements::last(std::size_t most) const {
  const std::size_t count = std::min(most, values_.size());
  std::vector<std::int64_t> result(count);
  // Where the ring is full, `next_` is its oldest.
  for (std::size_t i = 0; i < count; ++i)
    result[i] = values_[(next_ + values_.size() - count + i) % values_.size()];
  return result;
}

std::string RunMetrics::transfers() const {
  return fmt::format("{}", fmt::join(transfer_.last(compared_steps), " "));
}

void RunMetrics::tell_skew(std::span<const std::string> transfers_of_ranks) {
  const std::vector<std::int64_t> own = transfer_.last(compared_steps);
  std::vector<std::int64_t> shortest = own;
  for (const std::string& of_rank : transfers_of_ranks) {
    std::istringstream rest(of_rank);
    for (std::int64_t& step : shortest) {
      std::int64_t theirs = step;
      rest >> theirs;
      step = std::min(step, theirs);
    }
  }
  transfer_ = {};
  skew_ = {};
  for (std::size_t step = 0; step < own.size(); ++step) {
    transfer_.add(shortest[step]);
    skew_.add(own[step] - shortest[step]);
  }
}

void RunMetrics::start() {
  last_ = Clock::now();
  for (Window& window : windows_) window.start = last_;
}

void RunMetrics::step_done(const StepTiming& timing, std::int64_t data_wait_ns, std::int64_t samples,
                           Clock::time_point ended) {
  ++steps_;
  if (steps_ == 1) all_.start = last_;
  // The first step warms up caches and page tables. It would spoil a median of few, and counts only where no
  // other follows.
  if (steps_ == 2) {
    all_ = {.start = last_};
    step_ = {};
  }
  if (steps_ == steady_from_step - 1) steady_.start = ended;
  all_.samples += samples;
  if (steps_ >= steady_from_step) steady_.samples += samples;

  step_.add(std::chrono::duration_cast<std::chrono::nanoseconds>(ended - last_).count());
  exposed_.add(timing.exposed_ns);
  transfer_.add(timing.transfer_ns);
  skew_.add(timing.skew_ns);
  data_wait_.add(data_wait_ns);

  for (Window& window : windows_) {
    ++window.steps;
    window.samples += samples;
    window.exposed_ns += timing.exposed_ns;
    window.data_wait_ns += data_wait_ns;
  }
  last_ = ended;
}

void RunMetrics::resume() {
  const auto away = Clock::now() - paused_at_;
  for (Clock::time_point* start : {&last_, &all_.start, &steady_.start}) *start += away;
  for (Window& window : windows_) window.start += away;
}

Progress RunMetrics::take_window(Reader reader) {
  Window& window = windows_.at(static_cast<std::size_t>(reader));
  Progress progress;
  progress.samples_per_s = per_second(window.samples, window.start, last_);
  progress.step_ms =
      window.steps > 0 ? Seconds(last_ - window.start).count() * 1e3 / static_cast<double>(window.steps) : 0;
  progress.exposed_comm_ms = milliseconds(window.exposed_ns, window.steps);
  progress.data_wait_ms = milliseconds(window.data_wait_ns, window.steps);
  window = {.start = last_};
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

MemoryWatch::MemoryWatch() : thread_([this] { run(); }) {}

MemoryWatch::~MemoryWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

std::int64_t MemoryWatch::peak_bytes() {
  sample();
  return peak_;
}

void MemoryWatch::run() {
  std::unique_lock lock(mutex_);
  for (auto interval = first_interval; !wake_.wait_for(lock, interval, [this] { return stopping_; });
       interval = std::min(2 * interval, longest_interval)) {
    sample();
  }
}

void MemoryWatch::sample() {
  const std::int64_t now = proportional_set_size();
  std::int64_t seen = peak_;
  while (now > seen && !peak_.compare_exchange_weak(seen, now)) {
  }
}

}  // namespace lockstep::runtime
