#pragma once

#include <cstdint>

namespace lockstep::runtime {

/// `fill` and `decode` extend sequences by `PlanKey::length` tokens a row: `fill` for the sake of the caches
/// alone, `decode` gives what the network does, too. `encode` takes in the sources behind which targets grow.
enum class Mode : std::uint8_t { train, evaluate, fill, decode, encode };

/// Position of a micro-batch in its step: `first` overwrites the gradients, `middle` adds to them, `last`
/// adds and is followed by exchange and update; `only` is first and last.
enum class MicroBatchRole : std::uint8_t { only, first, middle, last };

constexpr bool begins_step(MicroBatchRole role) {
  return role == MicroBatchRole::only || role == MicroBatchRole::first;
}
constexpr bool ends_step(MicroBatchRole role) {
  return role == MicroBatchRole::only || role == MicroBatchRole::last;
}

/// Identifies a plan among those of one run.
struct PlanKey {
  Mode mode = Mode::train;
  MicroBatchRole role = MicroBatchRole::only;
  std::int64_t batch = 1;   ///< samples
  std::int64_t length = 0;  ///< to which rows of tokens are cut, or new tokens of each; 0: samples are whole

  bool trains() const { return mode == Mode::train; }
  bool operator==(const PlanKey&) const = default;
};

}  // namespace lockstep::runtime
