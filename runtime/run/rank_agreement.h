#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "kernels/base/activity.h"
#include "kernels/base/error.h"
#include "kernels/device.h"
#include "runtime/checkpoint/run_directory.h"
#include "runtime/checkpoint/run_state.h"
#include "runtime/options/options.h"
#include "runtime/run/task.h"

/// What the ranks of a run are told, and what they find, must be the same. All but `plugin_lines` and
/// `digests_of` is collective.
namespace lockstep::runtime {

/// UsageError on all ranks names the first option that differs, of those that decide what a run computes or
/// its course (`OptionInfo::decides`). Where data lie and what suits a machine may differ.
void require_same_options(comm::Communicator& communicator, const Options& options,
                          const kernels::Device& device);

/// The same of what each rank has opened: plugins, and the contents of both sets.
void require_same_data(comm::Communicator& communicator, const TrainingTask& task, Activity* activity);

/// Of the training set, as settings: of its bytes, and of the names of its classes and tokens.
Settings digests_of(const TrainingTask& task);

/// The same of the settings, which have also what a rank's machine and model say.
void require_equal_settings(comm::Communicator& communicator, const Settings& settings);

/// Which plugins were loaded, a line each.
std::string plugin_lines(const TrainingTask& task);

/// What `judge` gives, which each rank calls for itself, without collectives in it. Where it throws a
/// UsageError on any rank, all ranks throw that: none is left waiting for one that has gone.
template <class Judge>
auto judged_on_all_ranks(comm::Communicator& communicator, const Judge& judge) {
  auto judged = [&] {
    try {
      return judge();
    } catch (const UsageError& error) {
      throw_any_problem<UsageError>(communicator, error.what());
      throw;
    }
  }();
  throw_any_problem<UsageError>(communicator, "");
  return judged;
}

/// Each rank's number, by rank.
std::vector<std::int64_t> gather_numbers(comm::Communicator& communicator, std::int64_t mine);

/// Rank 0's number, on all ranks.
std::int64_t rank0_number(comm::Communicator& communicator, std::int64_t mine);

}  // namespace lockstep::runtime
