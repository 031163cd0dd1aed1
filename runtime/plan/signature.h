#pragma once

#include <string>

#include "comm/communicator.h"
#include "kernels/device.h"
#include "runtime/plan/plan.h"

namespace lockstep::runtime {

/// Everything that ranks must agree on to exchange gradients and stay equal, one entry a line: parameters
/// with offsets and layouts, bucket bounds, arenas, optimizer, clipping, micro-batches, instruction set,
/// threads, ops of plugins, selected algorithms.
std::string exchange_signature(const Plan& plan, const kernels::Device& device,
                               const SelectedAlgorithms& selected);

/// Compares over all ranks. UsageError on every rank names the first entry that differs, and the ranks.
void require_equal(comm::Communicator& communicator, const std::string& what, const std::string& text);

}  // namespace lockstep::runtime
