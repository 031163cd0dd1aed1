#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "comm/communicator.h"
#include "kernels/base/unique_fd.h"
#include "runtime/checkpoint/run_directory.h"

namespace lockstep::runtime {

/// Why RUN/ or a file in it cannot be trusted: it is a symbolic link, or people other than its owner, root
/// and the groups of this process may write it. Empty if it can be, or is not there.
std::string reason_to_distrust(const std::filesystem::path& path);

/// The same for a file of the person's cache and its folder, which may be a link.
std::string reason_to_distrust_cached(const std::filesystem::path& file);

/// The same for RUN/ and the files in it that a run reads or writes.
std::string reason_to_distrust_run(const std::filesystem::path& run);

/// The same for a checkpoint's folder, which also must be a folder of this user, of root or of the owner of
/// what holds it.
std::string reason_to_distrust_checkpoint(const std::filesystem::path& checkpoint);

/// From here on this process makes nothing that everyone may write, whatever its umask: its next start would
/// not trust it.
void mask_writes_of_others();

/// The same for the group, where what is made for RUN/ gets that of a folder which is none of this process's.
void mask_writes_of_foreign_group(const std::filesystem::path& run);

/// Held while a run uses RUN/ on one disk: RUN/lock, locked by an open file description (fcntl(2),
/// F_OFD_SETLK), so it goes with the process, however that ends. The file says who holds it, or held it last.
class RunLock {
 public:
  /// `holder`: what the file says then; empty: what it said before. UsageError names the host, process and
  /// run that hold it. Where the file system has no locks, a warning.
  RunLock(const std::filesystem::path& run, const std::string& holder);

 private:
  UniqueFd fd_;
};

/// A RUN/ that this process has made. Unless it is kept, it goes with this object, and its lock with it,
/// where nothing else has come into it: a run that is refused leaves no RUN/ behind. Folders above it that
/// were made for it stay. The process's own RunLock ends before.
class NewRunFolder {
 public:
  NewRunFolder(std::filesystem::path run, Activity* activity) : run_(std::move(run)), activity_(activity) {}
  NewRunFolder(const NewRunFolder&) = delete;
  NewRunFolder& operator=(const NewRunFolder&) = delete;
  ~NewRunFolder();

  void keep() { is_kept_ = true; }

 private:
  const std::filesystem::path run_;
  Activity* const activity_;
  bool is_kept_ = false;
};

/// Collective: the rank of each disk locks RUN/ there and sweeps it; nothing on the other ranks. UsageError
/// on all ranks when another run holds one.
std::optional<RunLock> lock_run(comm::Communicator& communicator, const RunDirectory& run_directory,
                                Activity* activity = nullptr);

}  // namespace lockstep::runtime
