#include "kernels/base/activity.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/signals.h"

namespace lockstep {

Activity::Work::Work(Activity* activity, Description what, Needs needs)
    : activity_(activity), what_(std::move(what)), needs_(needs) {
  if (activity_ == nullptr) return;
  const std::lock_guard lock(activity_->mutex_);
  activity_->work_.push_back(this);
  ++activity_->scopes_;
}

Activity::Work::Work(Activity* activity, std::string what, Needs needs)
    : Work(
          activity, [what = std::move(what)] { return what; }, needs) {}

Activity::Work::~Work() {
  if (activity_ == nullptr) return;
  const std::lock_guard lock(activity_->mutex_);
  std::erase(activity_->work_, this);
  ++activity_->scopes_;
}

void Activity::Work::advance() noexcept {
  if (activity_ != nullptr) activity_->advance();
}

void Activity::Work::advance(std::uint64_t done, std::uint64_t whole) noexcept {
  percent_ = static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(whole));
  advance();
}

std::string Activity::describe() const {
  const std::lock_guard lock(mutex_);
  if (work_.empty()) return {};
  const Work& last = *work_.back();
  const int percent = last.percent_;
  return percent < 0 ? last.what_() : fmt::format("{}, {} %", last.what_(), percent);
}

bool Activity::is_alone() const {
  const std::lock_guard lock(mutex_);
  return !work_.empty() && work_.back()->needs_ == Needs::nobody;
}

StallWatch::StallWatch(const Activity& activity, Seconds limit, std::function<void(const std::string&)> leave,
                       std::function<void()> look)
    : activity_(activity), limit_(limit), leave_(std::move(leave)), look_(std::move(look)) {
  const SignalsBlocked on_the_new_thread;
  thread_ = std::thread(&StallWatch::run, this);
}

StallWatch::~StallWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void StallWatch::run() {
  const auto interval =
      std::clamp<Seconds>(limit_ / 20, std::chrono::milliseconds(10), std::chrono::seconds(1));
  std::uint64_t seen = 0;
  Deadline deadline = Deadline::in(limit_);
  Clock::time_point looked = Clock::now();
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, interval, [this] { return stopping_; })) {
    look_();
    const std::uint64_t changes = activity_.changes();
    // Whoever was suspended has not hung.
    const bool was_away = Clock::now() - looked > limit_ / 4;
    looked = Clock::now();
    if (changes != seen || !activity_.is_alone() || was_away) {
      seen = changes;
      deadline = Deadline::in(limit_);
    } else if (deadline.passed()) {
      lock.unlock();  // the destructor, on a thread that advances after all, waits for us and not for the
                      // lock
      return leave_(activity_.describe());
    }
  }
}

}  // namespace lockstep
