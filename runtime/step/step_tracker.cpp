#include "runtime/step/step_tracker.h"

#include <utility>

#include <fmt/format.h>

namespace lockstep::runtime {

std::size_t StepTracker::add_plan(std::vector<std::string> labels) {
  const std::lock_guard lock(mutex_);
  labels_.push_back(std::move(labels));
  return labels_.size() - 1;
}

std::string StepTracker::label_at(std::uint64_t position) const {
  const std::size_t plan = position >> 32;
  const std::size_t step = position & 0xFFFFFFFF;
  const std::lock_guard lock(mutex_);
  return plan < labels_.size() && step < labels_[plan].size() ? labels_[plan][step] : "the beginning";
}

std::string StepTracker::describe() const {
  const std::int64_t number = number_.load(std::memory_order_relaxed);
  const std::string label = label_at(position_.load(std::memory_order_relaxed));
  switch (phase_.load(std::memory_order_relaxed)) {
    case Phase::setting_up:
      return "setting up";
    case Phase::loading:
      return fmt::format("step {}, loading", number);
    case Phase::computing:
      return fmt::format("step {}, {}", number, label);
    case Phase::evaluating:
      return fmt::format("evaluation after step {}, {}", number, label);
    case Phase::saving:
      return fmt::format("checkpoint of step {}", number);
  }
  return {};
}

}  // namespace lockstep::runtime
