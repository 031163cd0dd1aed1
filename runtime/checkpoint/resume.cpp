#include "runtime/checkpoint/resume.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/transfer.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// What a rank has to go on from, as it tells the others.
struct CheckpointInfo {
  std::int64_t step = -1;  ///< -1: nothing
  std::string digest;      ///< of the manifest, and so of all files
  std::vector<std::string> damaged;
  std::string unreadable;  ///< why the newest whole one is of no use to this version
  fs::path folder;         ///< on its own disk

  bool same_as(const CheckpointInfo& other) const { return step == other.step && digest == other.digest; }
};

Json to_json(const CheckpointInfo& info) {
  return {{"step", info.step},
          {"digest", info.digest},
          {"damaged", info.damaged},
          {"unreadable", info.unreadable}};
}

CheckpointInfo checkpoint_info_from(const std::string& text) {
  const Json json = Json::parse(text);
  return {.step = json["step"],
          .digest = json["digest"],
          .damaged = json["damaged"],
          .unreadable = json["unreadable"],
          .folder = {}};
}

/// Folders to try, the newest first: the one that is named, or all of a RUN.
std::vector<fs::path> candidates(const RunDirectory& run_directory) {
  const fs::path from =
      names_a_path(run_directory.resume) ? fs::path(run_directory.resume) : run_directory.run;
  if (step_in(from.filename().string()) || fs::exists(from / "state.json")) {
    return fs::exists(from) ? std::vector{from} : std::vector<fs::path>{};
  }
  std::vector<fs::path> folders;
  const CheckpointDirectory directory(*run_of(from) / "checkpoints");
  for (const std::int64_t step : directory.steps()) folders.push_back(directory.path_of(step));
  return folders;
}

void require_whole(const fs::path& checkpoint) {
  if (const std::string damage = damage_of(checkpoint); !damage.empty()) throw DataError(damage);
}

CheckpointInfo newest_whole(const std::vector<fs::path>& folders) {
  CheckpointInfo info;
  for (const fs::path& folder : folders) {
    try {
      require_whole(folder);
      info.step = read_run_state(folder / "state.json").step;
      info.digest = Sha256().update(MappedFile(folder / manifest_file).bytes()).hex();
      info.folder = folder;
      break;
    } catch (const FormatError& error) {
      info.unreadable = error.what();
      break;
    } catch (const Error& error) {
      info.damaged.emplace_back(error.what());
    }
  }
  return info;
}

void warn_of_damage(const std::vector<CheckpointInfo>& found) {
  std::set<std::string> said;
  for (const CheckpointInfo& info : found) {
    for (const std::string& damage : info.damaged) {
      if (said.insert(damage).second) spdlog::warn("a damaged checkpoint is passed over: {}", damage);
    }
  }
}

/// What another version wrote is neither damaged nor to be trained over.
void require_readable(const std::vector<CheckpointInfo>& found) {
  for (const CheckpointInfo& info : found) {
    if (!info.unreadable.empty()) throw DataError(info.unreadable);
  }
}

[[noreturn]] void throw_nothing_to_resume(const RunDirectory& run_directory,
                                          const std::vector<CheckpointInfo>& found) {
  for (const CheckpointInfo& info : found) {
    if (!info.damaged.empty()) {
      throw DataError(
          fmt::format("--resume {}: no whole checkpoint: {}", run_directory.resume, info.damaged.front()));
    }
  }
  throw DataError(
      fmt::format("--resume {}: there is no checkpoint; name a folder RUN/checkpoints/step-N, or "
                  "its RUN",
                  run_directory.resume));
}

/// The holder sends, the ranks that write for a disk without it put it there, the others just listen.
void hand_out(comm::Communicator& communicator, const RunDirectory& run_directory,
              const CheckpointInfo& wanted, int holder, bool has_it) {
  const auto& world = communicator.world();
  if (world.rank == holder) {
    send_checkpoint(communicator, wanted.folder);
  } else if (has_it || !run_directory.writes_checkpoints) {
    skip_checkpoint(communicator, holder);
  } else {
    CheckpointDirectory(run_directory.checkpoints()).add(wanted.step, [&](const fs::path& folder) {
      receive_checkpoint(communicator, holder, folder);
    });
  }
}

}  // namespace

std::optional<ResumePoint> find_resume_point(comm::Communicator& communicator,
                                             const RunDirectory& run_directory) {
  if (run_directory.resume == "none") return std::nullopt;
  const auto rank = static_cast<std::size_t>(communicator.world().rank);
  CheckpointInfo mine = newest_whole(candidates(run_directory));
  std::vector<CheckpointInfo> found;
  for (const std::string& text : communicator.all_gather(to_json(mine).dump())) {
    found.push_back(checkpoint_info_from(text));
  }
  require_readable(found);
  const auto best = std::ranges::max_element(found, {}, &CheckpointInfo::step);
  const bool nothing = best->step < 0;
  if (nothing && names_a_path(run_directory.resume)) throw_nothing_to_resume(run_directory, found);
  if (rank == 0) warn_of_damage(found);
  if (nothing) return std::nullopt;

  const bool has_it = mine.same_as(*best);
  if (!std::ranges::all_of(found, [&](const CheckpointInfo& info) { return info.same_as(*best); })) {
    hand_out(communicator, run_directory, has_it ? mine : *best, static_cast<int>(best - found.begin()),
             has_it);
    if (!has_it) mine.folder = CheckpointDirectory(run_directory.checkpoints()).path_of(best->step);
    throw_any_problem<DataError>(communicator, has_it ? std::string() : damage_of(mine.folder));
  }
  return ResumePoint{.folder = mine.folder, .state = read_run_state(mine.folder / "state.json")};
}

}  // namespace lockstep::runtime
