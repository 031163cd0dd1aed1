#pragma once

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/world/world.h"
#include "kernels/base/activity.h"
#include "runtime/options/options.h"

namespace lockstep::runtime {

/// RUN/: as given, or that of the checkpoint to resume, or a name that stays the same when a launcher
/// restarts the run.
std::filesystem::path run_folder(const Options& options, const std::string& model, const comm::World& world);

/// The run's folder on this rank's disk, as rank 0 has decided for all ranks.
struct RunDirectory {
  std::filesystem::path run;  ///< RUN/
  std::string resume;         ///< auto, none, or a path
  bool resuming = false;      ///< RUN/ may hold a run: it is the one to resume
  /// By rank, the lowest rank with RUN/ on the same disk: it reads, judges and writes the checkpoints there,
  /// so that any disk may be lost.
  std::vector<int> disk_ranks;
  /// Whether this rank is that of its disk.
  bool writes_checkpoints = false;
  bool is_new = false;  ///< this rank has made RUN/

  std::filesystem::path checkpoints() const { return run / "checkpoints"; }
};

/// Collective. Rank 0's `run` and `resume` (empty: none) count; one rank of each disk makes the folder.
/// UsageError on all ranks where others could write it (`reason_to_distrust_run`), or where rank 0's holds
/// weights or a config.ini that no run has made; what was made goes again then. From here on the process lets
/// no foreign group write what it makes. `activity` is told what may take long, here and in other functions
/// of this folder.
RunDirectory agree_on_run_directory(comm::Communicator& communicator, const std::filesystem::path& run,
                                    const std::string& resume, Activity* activity = nullptr);

/// The path, or of one that is not there yet the nearest folder above it that is; absolute.
std::filesystem::path nearest_existing(const std::filesystem::path& path);

/// Collective. By rank, the lowest rank that has `path`, a name on its own machine, as the same folder.
std::vector<int> ranks_of_disks(comm::Communicator& communicator, const std::filesystem::path& path);

/// Whether `resume` is given, and neither auto nor none.
bool names_a_path(const std::string& resume);

/// Whether a folder holds results that a new run must not overwrite: summary.json or checkpoints.
bool holds_a_run(const std::filesystem::path& run);

/// Whether RUN/ has the summary.json of a run that was not stopped.
bool is_finished(const std::filesystem::path& run);

/// RUN of RUN/checkpoints/step-..., of RUN/checkpoints, and of RUN itself; none for a checkpoint in another
/// place.
std::optional<std::filesystem::path> run_of(const std::filesystem::path& resumed);

/// Collective. Why RUN/ on this rank's disk must stay as it is: it holds a run that is not being resumed, or
/// a finished one, and no disk has a checkpoint from which `auto` could go on. Empty if it need not.
std::string reason_to_spare(comm::Communicator& communicator, const RunDirectory& run_directory,
                            Activity* activity = nullptr);

/// Collective. UsageError on all ranks when any has a `reason_to_spare` RUN/.
void require_unused(comm::Communicator& communicator, const RunDirectory& run_directory,
                    Activity* activity = nullptr);

/// Collective. UsageError on all ranks where RUN/ on any disk holds a finished run: no checkpoint is whole
/// (`damage`: of one), and a run from the beginning would overwrite its results.
void require_unfinished(comm::Communicator& communicator, const RunDirectory& run_directory,
                        const std::string& damage, Activity* activity = nullptr);

/// Collective. UsageError on all ranks where RUN/ holds a finished run and no disk has a checkpoint of its
/// end, not even a damaged one: a run that goes on from an older one would train again what is done, over its
/// results. `continues`: with RUN, and not from a checkpoint of it that was named.
void require_end_saved(comm::Communicator& communicator, const RunDirectory& run_directory, bool continues,
                       Activity* activity = nullptr);

/// Collective. Throws `Error` on every rank when any rank has a problem: the first problem, with its rank
/// unless all have it, or it is this one's, whose lines name it.
template <class Error>
void throw_any_problem(comm::Communicator& communicator, const std::string& problem) {
  const auto problems = communicator.all_gather(problem);
  const auto first =
      std::ranges::find_if(problems, [](const std::string& of_rank) { return !of_rank.empty(); });
  if (first == problems.end()) return;
  const auto rank = first - problems.begin();
  const bool of_all = std::ranges::count(problems, *first) == std::ssize(problems);
  const bool is_own = rank == communicator.world().rank;
  throw Error(of_all || is_own ? *first : "rank " + std::to_string(rank) + ": " + *first);
}

}  // namespace lockstep::runtime
