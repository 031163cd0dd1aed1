#pragma once

#include <cstdint>

#include "runtime/machine/session.h"
#include "runtime/options/options.h"
#include "runtime/run/task.h"

namespace lockstep::runtime {

/// What `--batch-size auto` means: the largest batch a rank whose plans fit its part of what is free on the
/// fullest GPU, a sixteenth kept back for what is not planned; at most a step an epoch. With --benchmark the
/// one of it and the powers of two below it that takes the least time a sample, replayed as CUDA graphs where
/// the device (`can_replay`) and the options let it. A run that goes on keeps the number that its config.ini
/// has, though more or less may be free now. Collective, before memory is allocated. UsageError on the CPU,
/// DeviceError when nothing fits.
std::int64_t automatic_batch_size(const Options& options, const TrainingTask& task, const Session& session,
                                  bool can_replay);

}  // namespace lockstep::runtime
