#include "runtime/checkpoint/resume.h"

#include <algorithm>
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

std::uint64_t bytes_of(const std::filesystem::path& checkpoint) {
  std::uint64_t bytes = 1;
  for (const char* name : all_files()) bytes += std::filesystem::file_size(checkpoint / name);
  return bytes;
}

/// Collective: one rank sends a checkpoint in pieces, file by file; each of the others receives or skips it.
void send_checkpoint(comm::Communicator& communicator, const std::filesystem::path& checkpoint,
                     Activity* activity) {
  Activity::Work work(activity, "sending " + checkpoint.string(), Activity::Needs::peers);
  const std::uint64_t whole = bytes_of(checkpoint);
  std::uint64_t sent = 0;
  const int self = communicator.world().rank;
  for (const char* name : all_files()) {
    FileReader file(checkpoint / name);
    std::uint64_t left = file.bytes();
    communicator.broadcast(std::as_writable_bytes(std::span(&left, 1)), self);
    std::vector<std::byte> piece(std::min<std::uint64_t>(left, piece_bytes));
    while (left > 0) {
      const std::span now = std::span(piece).first(std::min<std::uint64_t>(left, piece.size()));
      {
        const Activity::Work reading(activity, fmt::format("reading {}", (checkpoint / name).string()));
        file.read(now);
      }
      communicator.broadcast(now, self);
      left -= now.size();
      work.advance(sent += now.size(), whole);
    }
  }
}

/// Writes the files into `folder`. DataError when they do not match the manifest.
void receive_checkpoint(comm::Communicator& communicator, int sender, const std::filesystem::path& folder,
                        Activity* activity) {
  const Activity::Work work(activity, "receiving a checkpoint", Activity::Needs::peers);
  for (const char* name : all_files()) {
    AtomicFile file(folder / name);
    receive_file(communicator, sender, [&](std::span<const std::byte> piece) {
      const Activity::Work writing(activity, fmt::format("writing {}", (folder / name).string()));
      file.write(piece);
    });
    const Activity::Work flushing(activity, fmt::format("writing {}", (folder / name).string()));
    file.commit();
  }
  const Activity::Work checking(activity, "reading " + folder.string());
  if (const std::string damage = damage_of(folder, activity); !damage.empty()) {
    throw DataError("a checkpoint arrived damaged: " + damage);
  }
}

void copy_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to, Activity* activity) {
  Activity::Work work(activity, fmt::format("copying {} to {}", from.string(), to.string()));
  for (const char* name : all_files()) {
    AtomicFile file(to / name);
    read_in_pieces(from / name, [&](std::span<const std::byte> piece) {
      file.write(piece);
      work.advance();
    });
    file.commit();
  }
}

void skip_checkpoint(comm::Communicator& communicator, int sender) {
  for (std::size_t file = 0; file < all_files().size(); ++file) {
    receive_file(communicator, sender, [](std::span<const std::byte>) {});
  }
}

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

/// What is to be resumed: a checkpoint, or a RUN. Of RUN/checkpoints/latest the checkpoint beside it.
fs::path source_of(const RunDirectory& run_directory) {
  if (!names_a_path(run_directory.resume)) return run_directory.run;
  fs::path source = run_directory.resume;
  if (!source.has_filename()) source = source.parent_path();
  if (source.filename() != "latest") return source;
  std::error_code error;
  const fs::path target = fs::read_symlink(source, error);
  if (error || !step_in(target.string())) {
    throw DataError(fmt::format("--resume {}: is no link to a checkpoint beside it", source.string()));
  }
  return source.parent_path() / target;
}

/// The newest first.
std::vector<fs::path> all_in(const CheckpointDirectory& directory) {
  std::vector<fs::path> folders;
  for (const std::int64_t step : directory.steps()) folders.push_back(directory.path_of(step));
  return folders;
}

/// Folders to try, the newest first, of what --resume names: a checkpoint, or all of a RUN.
std::vector<fs::path> candidates(const fs::path& from) {
  std::error_code ignored;
  if (step_in(from.filename().string()) || fs::exists(from / "state.json", ignored)) {
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

  std::vector<bool> has_it;
  for (const int reader : readers) has_it.push_back(by_rank[static_cast<std::size_t>(reader)].same_as(*best));
  if (std::ranges::find(has_it, false) != has_it.end()) {
    hand_out(communicator, run_directory, *best, static_cast<int>(best - by_rank.begin()), has_it, activity);
  }
  if (run_directory.writes_checkpoints && run_directory.resuming) {
    CheckpointDirectory(run_directory.checkpoints()).set_latest(best->step);
  }
  const fs::path folder = has_it[rank] ? fs::path(by_rank[static_cast<std::size_t>(readers[rank])].folder)
                                       : CheckpointDirectory(run_directory.checkpoints()).path_of(best->step);
  return ResumePoint{.folder = folder, .state = read_run_state(folder / "state.json")};
}

}  // namespace lockstep::runtime
