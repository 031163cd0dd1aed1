#include "runtime/checkpoint/resume.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"
#include "kernels/base/json.h"
#include "kernels/base/log.h"
#include "runtime/checkpoint/checkpoint_directory.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t piece_bytes = std::size_t{4} << 20;

std::vector<const char*> all_files() {
  std::vector<const char*> names(std::begin(checkpoint_files), std::end(checkpoint_files));
  names.push_back(manifest_file);
  return names;
}

/// One file from `sender`: its size, then its bytes piece by piece.
void receive_file(comm::Communicator& communicator, int sender,
                  const std::function<void(std::span<const std::byte>)>& take) {
  std::uint64_t left = 0;
  communicator.broadcast(std::as_writable_bytes(std::span(&left, 1)), sender);
  std::vector<std::byte> piece(std::min<std::uint64_t>(left, piece_bytes));
  while (left > 0) {
    const std::span now = std::span(piece).first(std::min<std::uint64_t>(left, piece.size()));
    communicator.broadcast(now, sender);
    take(now);
    left -= now.size();
  }
}

/// Collective: one rank sends a checkpoint in pieces, file by file; each of the others receives or skips it.
void send_checkpoint(comm::Communicator& communicator, const std::filesystem::path& checkpoint) {
  const int self = communicator.world().rank;
  for (const char* name : all_files()) {
    const MappedFile file(checkpoint / name);
    std::uint64_t size = file.bytes().size();
    communicator.broadcast(std::as_writable_bytes(std::span(&size, 1)), self);
    std::vector<std::byte> piece(std::min<std::uint64_t>(size, piece_bytes));
    for (std::size_t at = 0; at < size; at += piece_bytes) {
      const std::size_t count = std::min<std::size_t>(size - at, piece_bytes);
      std::memcpy(piece.data(), file.bytes().data() + at, count);
      communicator.broadcast(std::span(piece).first(count), self);
    }
  }
}

/// Writes the files into `folder`. DataError when they do not match the manifest.
void receive_checkpoint(comm::Communicator& communicator, int sender, const std::filesystem::path& folder) {
  for (const char* name : all_files()) {
    AtomicFile file(folder / name);
    receive_file(communicator, sender, [&](std::span<const std::byte> piece) { file.write(piece); });
    file.commit();
  }
  if (const std::string damage = damage_of(folder); !damage.empty()) {
    throw DataError("a checkpoint arrived damaged: " + damage);
  }
}

void skip_checkpoint(comm::Communicator& communicator, int sender) {
  for (std::size_t file = 0; file < all_files().size(); ++file) {
    receive_file(communicator, sender, [](std::span<const std::byte>) {});
  }
}

namespace fs = std::filesystem;

/// A rank's newest checkpoint, as it is sent to the others.
struct CheckpointInfo {
  std::int64_t step = -1;  ///< -1: none
  std::string digest;      ///< of the manifest, and so of all files
  std::vector<std::string> damaged;
  std::string unreadable;  ///< why this version cannot read the newest whole one
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
  return {.step = json["step"].get<std::int64_t>(),
          .digest = json["digest"].get<std::string>(),
          .damaged = json["damaged"].get<std::vector<std::string>>(),
          .unreadable = json["unreadable"].get<std::string>(),
          .folder = {}};
}

/// Folders to try, the newest first: the named checkpoint, or all of a RUN.
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

[[noreturn]] void throw_nothing_to_resume(const RunDirectory& run_directory,
                                          const std::vector<CheckpointInfo>& by_rank) {
  for (const CheckpointInfo& info : by_rank) {
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

/// The holder sends; ranks that write for a disk without the checkpoint store it; the others skip it.
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
  std::vector<CheckpointInfo> by_rank;
  for (const std::string& text : communicator.all_gather(to_json(mine).dump())) {
    by_rank.push_back(checkpoint_info_from(text));
  }
  require_readable(by_rank);
  const auto best = std::ranges::max_element(by_rank, {}, &CheckpointInfo::step);
  const bool nothing = best->step < 0;
  if (nothing && names_a_path(run_directory.resume)) throw_nothing_to_resume(run_directory, by_rank);
  if (rank == 0) warn_of_damage(by_rank);
  if (nothing) return std::nullopt;

  const bool has_it = mine.same_as(*best);
  if (!std::ranges::all_of(by_rank, [&](const CheckpointInfo& info) { return info.same_as(*best); })) {
    hand_out(communicator, run_directory, has_it ? mine : *best, static_cast<int>(best - by_rank.begin()),
             has_it);
    if (!has_it) mine.folder = CheckpointDirectory(run_directory.checkpoints()).path_of(best->step);
    throw_any_problem<DataError>(communicator, has_it ? std::string() : damage_of(mine.folder));
  }
  return ResumePoint{.folder = mine.folder, .state = read_run_state(mine.folder / "state.json")};
}

}  // namespace lockstep::runtime
