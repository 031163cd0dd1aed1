#include "runtime/checkpoint/resume.h"

#include <algorithm>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"
#include "kernels/base/json.h"
#include "kernels/base/log.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/checkpoint_transfer.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

/// A rank's newest checkpoint, as it is sent to the others; the folder alone, since JSON is UTF-8.
struct CheckpointInfo {
  std::int64_t step = -1;  ///< -1: none
  std::string digest;      ///< of the manifest, and so of all files
  std::vector<std::string> damaged;
  std::string unreadable;  ///< why this version cannot read the newest whole one
  std::string folder;      ///< on its disk

  bool same_as(const CheckpointInfo& other) const { return step == other.step && digest == other.digest; }
};

Json to_json(const CheckpointInfo& info) {
  return {{"step", info.step},
          {"digest", info.digest},
          {"damaged", info.damaged},
          {"unreadable", info.unreadable}};
}

CheckpointInfo checkpoint_info_from(const std::string& text, const std::string& folder) {
  const Json json = Json::parse(text);
  return {.step = json["step"].get<std::int64_t>(),
          .digest = json["digest"].get<std::string>(),
          .damaged = json["damaged"].get<std::vector<std::string>>(),
          .unreadable = json["unreadable"].get<std::string>(),
          .folder = folder};
}

/// What is to be resumed: a checkpoint, or a RUN. A link RUN/checkpoints/latest stands for the checkpoint
/// beside it; what else has that name is judged as any checkpoint, and may be missing on this disk.
fs::path source_of(const RunDirectory& run_directory) {
  if (!names_a_path(run_directory.resume)) return run_directory.run;
  fs::path source = run_directory.resume;
  if (!source.has_filename()) source = source.parent_path();
  if (source.filename() != "latest") return source;
  std::error_code is_no_link;
  const fs::path target = fs::read_symlink(source, is_no_link);
  return !is_no_link && step_in(target.string()) ? source.parent_path() / target : source;
}

/// The newest first.
std::vector<fs::path> all_in(const CheckpointDirectory& directory) {
  std::vector<fs::path> folders;
  for (const std::int64_t step : directory.steps()) folders.push_back(directory.path_of(step));
  return folders;
}

/// Whether it is one checkpoint, on this disk or on another, and not a RUN or all of its checkpoints.
bool is_checkpoint(const fs::path& from) {
  std::error_code ignored;
  if (fs::exists(from / "checkpoints", ignored)) return false;
  const std::string name = from.filename().string();
  return name == "latest" || step_in(name) || fs::exists(from / "state.json", ignored);
}

/// Folders to try, the newest first, of what --resume names: a checkpoint, or all of a RUN.
std::vector<fs::path> candidates(const fs::path& from) {
  std::error_code ignored;
  if (is_checkpoint(from)) {
    return fs::exists(from, ignored) ? std::vector{from} : std::vector<fs::path>{};
  }
  return all_in(CheckpointDirectory(*run_of(from) / "checkpoints"));
}

void require_whole(const fs::path& checkpoint, Activity* activity) {
  if (const std::string damage = damage_of(checkpoint, activity); !damage.empty()) throw DataError(damage);
}

CheckpointInfo newest_whole(const std::vector<fs::path>& folders, Activity* activity) {
  CheckpointInfo info;
  for (const fs::path& folder : folders) {
    const Activity::Work work(activity, "reading " + folder.string());
    try {
      require_whole(folder, activity);
      info.step = read_run_state(folder / "state.json").step;
      Sha256 digest;
      read_in_pieces(folder / manifest_file, [&](std::span<const std::byte> piece) { digest.update(piece); });
      info.digest = digest.hex();
      info.folder = folder.string();
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

void warn_of_damage(const std::vector<CheckpointInfo>& by_rank) {
  std::set<std::string> printed;
  for (const CheckpointInfo& info : by_rank) {
    for (const std::string& damage : info.damaged) {
      if (printed.insert(damage).second) log::warn("a damaged checkpoint is passed over: {}", damage);
    }
  }
}

/// A checkpoint of another version is not damaged, and must not be overwritten.
void require_readable(const std::vector<CheckpointInfo>& by_rank) {
  for (const CheckpointInfo& info : by_rank) {
    if (!info.unreadable.empty()) throw DataError(info.unreadable);
  }
}

/// Of the newest that is damaged; empty for none.
std::string first_damage(const std::vector<CheckpointInfo>& by_rank) {
  for (const CheckpointInfo& info : by_rank) {
    if (!info.damaged.empty()) return info.damaged.front();
  }
  return {};
}

[[noreturn]] void throw_nothing_to_resume(const RunDirectory& run_directory, const std::string& damage) {
  if (!damage.empty())
    throw DataError(fmt::format("--resume {}: no whole checkpoint: {}", run_directory.resume, damage));
  throw DataError(
      fmt::format("--resume {}: there is no checkpoint; name a folder RUN/checkpoints/step-N, or "
                  "its RUN",
                  run_directory.resume));
}

/// The holder sends. The rank of a disk on which any rank lacks the checkpoint stores it; the others skip it.
/// All wait until it is stored, since several may read one disk.
void hand_out(comm::Communicator& communicator, const RunDirectory& run_directory,
              const CheckpointInfo& wanted, int holder, const std::vector<bool>& has_it, Activity* activity) {
  const int rank = communicator.world().rank;
  bool stores = false;
  for (std::size_t other = 0; other < has_it.size(); ++other) {
    stores = stores || (run_directory.disk_ranks[other] == rank && !has_it[other]);
  }
  const CheckpointDirectory directory(run_directory.checkpoints());
  if (rank == holder) {
    send_checkpoint(communicator, wanted.folder, activity);
    // A named checkpoint that other machines cannot see, for a RUN that they can.
    if (stores)
      directory.add(wanted.step,
                    [&](const fs::path& folder) { copy_checkpoint(wanted.folder, folder, activity); });
  } else if (stores) {
    directory.add(wanted.step, [&](const fs::path& folder) {
      receive_checkpoint(communicator, holder, folder, activity);
    });
  } else {
    skip_checkpoint(communicator, holder);
  }
  communicator.barrier();
}

/// What refuses the run because of it; empty if there is none.
std::string later_one_of_another_course(const RunDirectory& run_directory, std::int64_t step,
                                        const Settings& settings, const Settings& machine,
                                        Activity* activity) {
  const CheckpointDirectory directory(run_directory.checkpoints());
  for (const std::int64_t later : directory.steps()) {
    if (later <= step) break;
    const fs::path folder = directory.path_of(later);
    try {
      const std::string text = course_differences(read_run_state(folder / "state.json"), settings, machine);
      if (text.empty() || !damage_of(folder, activity).empty()) continue;
      return fmt::format(
          "--resume {}: {} is later and was made with {}, so --resume auto would go on from there: do that, "
          "give another --run-dir, or move later checkpoints away",
          run_directory.resume, folder.string(), text);
    } catch (const DataError&) {  // damaged, too: `auto` passes it over
    }
  }
  return {};
}

}  // namespace

std::optional<ResumePoint> find_resume_point(comm::Communicator& communicator,
                                             const RunDirectory& run_directory, Activity* activity) {
  if (run_directory.resume == "none") return std::nullopt;
  const fs::path source = source_of(run_directory);
  const bool is_named = names_a_path(run_directory.resume);
  const std::vector<int> readers = is_named ? ranks_of_disks(communicator, source) : run_directory.disk_ranks;
  const auto rank = static_cast<std::size_t>(communicator.world().rank);
  const bool reads = readers[rank] == communicator.world().rank;
  const auto newest = [&] {
    return newest_whole(is_named ? candidates(source) : all_in(CheckpointDirectory(source / "checkpoints")),
                        activity);
  };
  const CheckpointInfo mine = reads ? newest() : CheckpointInfo{};
  const std::vector<std::string> texts = communicator.all_gather(to_json(mine).dump());
  const std::vector<std::string> folders = communicator.all_gather(mine.folder);
  std::vector<CheckpointInfo> by_rank;
  for (std::size_t other = 0; other < texts.size(); ++other) {
    by_rank.push_back(checkpoint_info_from(texts[other], folders[other]));
  }
  require_readable(by_rank);
  const auto best = std::ranges::max_element(by_rank, {}, &CheckpointInfo::step);
  const bool nothing = best->step < 0;
  if (nothing && is_named) throw_nothing_to_resume(run_directory, first_damage(by_rank));
  if (nothing) require_unfinished(communicator, run_directory, first_damage(by_rank), activity);
  if (rank == 0) warn_of_damage(by_rank);
  if (nothing) return std::nullopt;
  require_end_saved(communicator, run_directory, !is_named || !is_checkpoint(source), activity);

  std::vector<bool> has_it;
  for (const int reader : readers) has_it.push_back(by_rank[static_cast<std::size_t>(reader)].same_as(*best));
  if (std::ranges::find(has_it, false) != has_it.end()) {
    hand_out(communicator, run_directory, *best, static_cast<int>(best - by_rank.begin()), has_it, activity);
  }
  const fs::path folder = has_it[rank] ? fs::path(by_rank[static_cast<std::size_t>(readers[rank])].folder)
                                       : CheckpointDirectory(run_directory.checkpoints()).path_of(best->step);
  return ResumePoint{.folder = folder, .state = read_run_state(folder / "state.json")};
}

void require_one_course(comm::Communicator& communicator, const RunDirectory& run_directory,
                        std::int64_t step, const Settings& settings, const Settings& machine,
                        Activity* activity) {
  std::string problem;
  if (names_a_path(run_directory.resume) && run_directory.resuming && run_directory.writes_checkpoints) {
    const Activity::Work work(activity, "looking at " + run_directory.checkpoints().string());
    // What is later than the newest whole one of a RUN is damaged.
    if (is_checkpoint(source_of(run_directory)))
      problem = later_one_of_another_course(run_directory, step, settings, machine, activity);
  }
  throw_any_problem<UsageError>(communicator, problem);
}

}  // namespace lockstep::runtime
