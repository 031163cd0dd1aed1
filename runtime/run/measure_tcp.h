#pragma once

#include <vector>

#include "comm/world/world.h"
#include "runtime/options/options.h"
#include "runtime/plan/scaling.h"

namespace lockstep::runtime {

/// An exchange between two ranks on this machine that meet over TCP, with TLS as the options say: its core
/// time is what an exchange between nodes takes beside the link's. Starts processes: the caller must not have
/// started a thread.
TcpTimes measure_tcp(const Options& options);

}  // namespace lockstep::runtime
