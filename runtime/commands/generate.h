#pragma once

#include "runtime/checkpoint/saved_weights.h"
#include "runtime/options/options.h"

namespace lockstep::runtime {

/// `trainer predict RUN --prompt TEXT`: prints a line of JSON for each prompt, in their order: "prompt",
/// "text" (what was written behind it), "tokens" (how many that are), "stop_reason". The exit code.
int write_on(const SavedWeights& saved, const Options& options);

}  // namespace lockstep::runtime
