#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "kernels/device.h"
#include "runtime/machine/session.h"
#include "runtime/plan/plan.h"
#include "runtime/run/task.h"

namespace lockstep::runtime {

/// The task as a GPU gets it: pictures travel as bytes, of which the first node of each plan makes inputs, to
/// the same bits. On a CPU it stays as it is.
TrainingTask fed_by_bytes(const kernels::Device& device, TrainingTask task);

/// The same, or where `--data-device` wants it and the samples allow it a task whose pictures or tokens the
/// device keeps, so that only what is to be shown of them travels. Collective. UsageError for `gpu` where
/// that cannot be.
TrainingTask fed_to(const Session& session, const std::string& data_device, TrainingTask task);

bool keeps_data(const TrainingTask& task);

/// Writes what the device keeps, of all sets, into `store`.
void fill_store(const Session& session, const TrainingTask& task, std::span<std::byte> store);

/// Of the batches that are loaded ahead of training steps, where they are pinned; 0 otherwise.
std::size_t pinned_bytes(const kernels::Device& device, const Options& options, const Plan& plan);

}  // namespace lockstep::runtime
