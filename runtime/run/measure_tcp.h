#pragma once

#include "runtime/options/options.h"
#include "runtime/performance/scaling.h"
#include "runtime/run/task.h"

namespace lockstep::runtime {

/// Exchanges between two ranks on this machine that meet over TCP, with TLS as the options say, at the pace
/// of a link: what they take alone, and beside the options' training step on the same core. Starts processes:
/// the caller must not have started a thread.
TcpTimes measure_tcp(const Options& options, const TrainingTask& task, double link_bytes_per_s);

}  // namespace lockstep::runtime
