#include "runtime/whereabouts.h"

#include <fmt/format.h>

namespace lockstep::runtime {

std::string Whereabouts::text() const {
  const std::int64_t number = number_.load(std::memory_order_relaxed);
  const std::uint64_t place = place_.load(std::memory_order_relaxed);
  const auto& steps = plans_[place >> 32];
  const std::size_t step = place & 0xFFFFFFFF;
  const std::string op = step < steps.size() ? steps[step] : "the end";
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
