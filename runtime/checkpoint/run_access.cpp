#include "runtime/checkpoint/run_access.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/deadline.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/host.h"
#include "kernels/base/log.h"
#include "kernels/base/uninterrupted.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/restart.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

std::optional<struct stat> status_of(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

bool is_ours(gid_t group) {
  if (group == ::getegid()) return true;
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  return std::find(groups.begin(), groups.begin() + std::max(count, 0), group) !=
         groups.begin() + std::max(count, 0);
}

void mask_more(mode_t permissions) {
  // Only ever more: another thread may make a file meanwhile.
  const mode_t before = ::umask(S_IRWXG | S_IRWXO);
  ::umask(before | permissions);
}

[[noreturn]] void fail(const std::filesystem::path& file, int error) {
  throw DeviceError(fmt::format("{}: cannot be written: {}; {}", file.string(), errno_message(error),
                                error == EFBIG ? hint_of_too_large : "name another --run-dir"));
}

std::string description_of_holder(const std::string& run_id, const std::string& jobs) {
  return fmt::format("{} process {} run {}\n{}", host_name(), ::getpid(), run_id, jobs);
}

void write_holder(const UniqueFd& fd, const std::filesystem::path& file, const std::string& holder) {
  const auto size = static_cast<ssize_t>(holder.size());
  const auto empty = [&] { return ::ftruncate(fd.get(), 0); };
  const auto write = [&] { return ::pwrite(fd.get(), holder.data(), holder.size(), 0); };
  if (uninterrupted(empty) != 0 || uninterrupted(write) != size) fail(file, errno);
}

/// Who holds the lock, by its `file`. It locks before it writes that, so nobody is named there for a moment;
/// a run that is refused holds it without a name.
std::string holder_of(const fs::path& file) {
  constexpr Seconds time_to_write{0.5};
  for (const Deadline deadline = Deadline::in(time_to_write); !deadline.passed();) {
    if (std::string holder = first_line(file); !holder.empty()) return holder;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return "another run";
}

/// Also where nothing tells what it holds.
bool holds_more_than_lock(const fs::path& run) {
  std::error_code error;
  for (fs::directory_iterator at(run, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename() != "lock") return true;
  }
  return static_cast<bool>(error);
}

}  // namespace

std::string reason_to_distrust(const fs::path& path) {
  const auto status = status_of(path);
  if (!status) return {};
  if (S_ISLNK(status->st_mode)) {
    return fmt::format("{} is a symbolic link: name what it points to", path.string());
  }
  if ((status->st_mode & S_IWOTH) != 0) {
    return fmt::format("{} can be written by everyone: chmod o-w {}", path.string(), path.string());
  }
  if ((status->st_mode & S_IWGRP) != 0 && !is_ours(status->st_gid)) {
    return fmt::format("{} can be written by group {}, which is not yours: chmod g-w {}", path.string(),
                       status->st_gid, path.string());
  }
  return {};
}

std::string reason_to_distrust_cached(const fs::path& file) {
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(file.parent_path(), error);
  if (error) return fmt::format("{}: {}", file.string(), error.message());
  const std::string reason = reason_to_distrust(folder);
  return reason.empty() ? reason_to_distrust(file) : reason;
}

std::string reason_to_distrust_run(const fs::path& run) {
  // The person named RUN: it may be a link.
  if (std::string reason = reason_to_distrust(fs::weakly_canonical(run)); !reason.empty()) return reason;
  for (const char* name : {"lock", "config.ini", "log.jsonl", "summary.json", "failure.json",
                           "model.safetensors", "checkpoints"}) {
    const auto status = status_of(run / name);
    // Runs whose links lead to one folder would overwrite each other's checkpoints: each locks its own RUN/.
    if (status && S_ISLNK(status->st_mode)) {
      return fmt::format(
          "{} is a symbolic link: only the whole folder of a run may be elsewhere; name that by "
          "--run-dir, or link to it",
          (run / name).string());
    }
    if (std::string reason = reason_to_distrust(run / name); !reason.empty()) return reason;
    const bool is_folder = name == std::string_view("checkpoints");
    if (status && (is_folder ? !S_ISDIR(status->st_mode) : !S_ISREG(status->st_mode))) {
      return fmt::format("{} is no {}", (run / name).string(), is_folder ? "folder" : "regular file");
    }
  }
  return {};
}

std::string reason_to_distrust_checkpoint(const fs::path& checkpoint) {
  const auto status = status_of(checkpoint);
  const auto above = status_of(fs::absolute(checkpoint).parent_path());
  if (!status || !above) return {};
  if (S_ISLNK(status->st_mode)) return reason_to_distrust(checkpoint);
  if (!S_ISDIR(status->st_mode)) return fmt::format("{} is no folder", checkpoint.string());
  if (status->st_uid != ::geteuid() && status->st_uid != 0 && status->st_uid != above->st_uid) {
    return fmt::format("{} belongs to user {}", checkpoint.string(), status->st_uid);
  }
  return reason_to_distrust(checkpoint);
}

void mask_writes_of_others() {
  mask_more(S_IWOTH);
}

void mask_writes_of_foreign_group(const fs::path& run) {
  struct stat folder {};
  const bool hands_group_on =
      ::stat(nearest_existing(run).c_str(), &folder) == 0 && (folder.st_mode & S_ISGID) != 0;
  if (hands_group_on && !is_ours(folder.st_gid)) mask_more(S_IWGRP);
}

RunLock::RunLock(const std::filesystem::path& run, const std::string& holder) {
  const std::filesystem::path file = run / "lock";
  fd_ = UniqueFd(uninterrupted(
      [&] { return ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644); }));
  if (!fd_) fail(file, errno);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (uninterrupted([&] { return ::fcntl(fd_.get(), F_OFD_SETLK, &whole); }) != 0) {
    if (errno == EAGAIN || errno == EACCES) {
      throw UsageError(fmt::format("{} is in use by {}: wait for it, or name another --run-dir", run.string(),
                                   holder_of(file)));
    }
    log::warn("{} cannot be locked here ({}): see that no second run uses it", file.string(),
              errno_message(errno));
  }
  std::error_code error;
  if (!fs::exists(file, error) && !error) {
    throw UsageError(
        fmt::format("{} has just been removed by a run that was refused there: start again", run.string()));
  }
  if (!holder.empty()) write_holder(fd_, file, holder);
}

NewRunFolder::~NewRunFolder() {
  if (is_kept_) return;
  try {
    const Activity::Work work(activity_, "removing " + run_.string());
    if (holds_more_than_lock(run_)) return;
    const RunLock lock(run_, {});  // no other run has come meanwhile
    ::unlink((run_ / "lock").c_str());
    ::rmdir(run_.c_str());
  } catch (const std::exception&) {  // it stays, and what ended the run is told
  }
}

std::optional<RunLock> lock_run(comm::Communicator& communicator, const RunDirectory& run_directory,
                                Activity* activity) {
  std::optional<RunLock> lock;
  std::string problem;
  const std::string jobs = launcher_jobs(communicator, comm::process_environment());
  // A run that will be refused must not look like the one that is there.
  const bool is_refused = !reason_to_spare(communicator, run_directory, activity).empty();
  if (run_directory.writes_checkpoints) {
    const Activity::Work work(activity, "locking " + run_directory.run.string());
    try {
      const std::string holder = description_of_holder(communicator.world().run_id, jobs);
      lock.emplace(run_directory.run, is_refused ? std::string() : holder);
    } catch (const UsageError& error) {
      problem = error.what();
    }
  }
  throw_any_problem<UsageError>(communicator, problem);
  if (lock) {
    const Activity::Work work(activity, "sweeping " + run_directory.run.string());
    sweep_temporaries(run_directory.run);
    CheckpointDirectory(run_directory.checkpoints()).sweep();
  }
  return lock;
}

}  // namespace lockstep::runtime
