#include "runtime/step/step_tracker.h"

#include <utility>

#include <fmt/format.h>

namespace lockstep::runtime {

std::size_t StepTracker::add_plan(std::vector<std::string> steps) {
  const std::lock_guard lock(mutex_);
  plans_.push_back(std::move(steps));
  return plans_.size() - 1;
}

std::string StepTracker::name_of(std::uint64_t place) const {
  const std::size_t plan = place >> 32;
  const std::size_t step = place & 0xFFFFFFFF;
  const std::lock_guard lock(mutex_);
  return plan < plans_.size() && step < plans_[plan].size() ? plans_[plan][step] : "the beginning";
}

std::string StepTracker::text() const {
  const std::int64_t number = number_.load(std::memory_order_relaxed);
  const std::string op = name_of(place_.load(std::memory_order_relaxed));
  switch (phase_.load(std::memory_order_relaxed)) {
    case Phase::setting_up:
      return "setting up";
    case Phase::loading:
      return fmt::format("step {}, waiting for the loader", number);
    case Phase::computing:
      return fmt::format("step {}, {}", number, op);
    case Phase::evaluating:
      return fmt::format("evaluation after step {}, {}", number, op);
    case Phase::saving:
      return fmt::format("checkpoint of step {}", number);
  }
  return {};
}

}  // namespace lockstep::runtime
