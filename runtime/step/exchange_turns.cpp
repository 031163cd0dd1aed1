#include "runtime/step/exchange_turns.h"

#include <utility>

namespace lockstep::runtime {
namespace {

constexpr int walks_of_a_decision = 16;

/// Shares of a step that it waits. On two cores at 1 Gbit/s turns made gpt2 with 0.8 M parameters 5 % faster,
/// which waits a seventh, and lstm 7 % slower, which waits a fifth.
constexpr double most_to_take_turns = 1 / 6.0;
constexpr double least_to_interrupt = 1 / 4.0;

}  // namespace

void ExchangeTurns::end_walk(std::int64_t waited_ns, std::int64_t walk_ns) noexcept {
  waited_ns_ += waited_ns;
  walk_ns_ += walk_ns;
  if (++walks_ < walks_of_a_decision) return;
  walks_ = 0;
  const auto waited = static_cast<double>(std::exchange(waited_ns_, 0));
  const auto walked = static_cast<double>(std::exchange(walk_ns_, 0));
  const bool interrupts = waited > (interrupts_ ? most_to_take_turns : least_to_interrupt) * walked;
  if (interrupts == interrupts_) return;
  interrupts_ = interrupts;
  queue_.interrupt_others(interrupts);
}

}  // namespace lockstep::runtime
