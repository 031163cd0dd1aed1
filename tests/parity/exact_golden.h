#pragma once

#include <nlohmann/json.hpp>

namespace lockstep::parity {

/// Goldens of models in which PyTorch computed in double: `own` tells how far rounding alone takes its own
/// numbers (README.md, "Digests").

/// Loss and every gradient of a first step by `trainer`. A gradient's error may be `least`, or three times
/// PyTorch's own.
void check_first_step(const nlohmann::json& golden, double least = 1e-4);

/// The losses of twenty steps of SGD. Rounding grows from step to step: they may be three times as far off as
/// the farthest of PyTorch's own runs, and `least` of themselves.
void check_losses(const nlohmann::json& golden, double least = 0);

}  // namespace lockstep::parity
