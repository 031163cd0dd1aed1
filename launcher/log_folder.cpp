#include "launcher/log_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"
#include "kernels/base/host.h"
#include "kernels/base/json.h"
#include "kernels/base/uninterrupted.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;

fs::path make_unique_folder(const fs::path& prefix) {
  std::string name = prefix.string() + "_XXXXXX";
  if (!mkdtemp(name.data()))
    throw DeviceError(fmt::format("cannot create '{}': {}; name another folder by TMPDIR or --log-dir", name,
                                  errno_message(errno)));
  return fs::absolute(name);  // ranks may change theirs
}

fs::path in_temporary_folder(const std::string& name) {
  const char* folder = getenv("TMPDIR");
  return fs::path(folder && *folder ? folder : "/tmp") / name;
}

/// Of folders that go away with their launch alone; others have logs. They tell the host, in this boot: on a
/// disk that hosts share a lock may be seen by its own alone.
fs::path temporary_prefix() {
  const std::string boot = boot_id();
  const std::uint64_t host = fnv1a(boot.empty() ? host_name() : boot);
  return in_temporary_folder(fmt::format("lockstep_launch_tmp_{:016x}", host));
}

/// A run id may be a path, such as "team/experiment" or an absolute one.
std::string in_one_name(std::string run_id) {
  std::ranges::replace(run_id, '/', '_');
  return run_id;
}

void create_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw UsageError(fmt::format("--log-dir: cannot create '{}': {}", folder.string(), error.message()));
}

void create_rank_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw DeviceError(
        fmt::format("cannot create '{}': {}; check the disk, or name another by TMPDIR or --log-dir",
                    folder.string(), error.message()));
  }
}

/// The kernel frees it when launch dies, however that happens.
struct FolderLock {
  UniqueFd fd;  ///< none: the folder has no lock, since it is gone, or another's, or its file system has none
  int error = 0;
};

bool is_at(const UniqueFd& fd, const fs::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd.get(), &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

FolderLock lock_folder(const fs::path& folder) {
  UniqueFd fd(
      uninterrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW); }));
  if (!fd || uninterrupted([&] { return ::flock(fd.get(), LOCK_EX | LOCK_NB); }) != 0)
    return {.fd = UniqueFd(), .error = errno};
  if (!is_at(fd, folder)) return {.fd = UniqueFd(), .error = ENOENT};
  return {.fd = std::move(fd)};
}

/// Another launch may find it before it is locked, and remove it: then the next is tried.
std::pair<fs::path, UniqueFd> make_temporary_folder() {
  while (true) {
    fs::path folder = make_unique_folder(temporary_prefix());
    FolderLock lock = lock_folder(folder);
    if (lock.error != EWOULDBLOCK && lock.error != ENOENT) return {std::move(folder), std::move(lock.fd)};
  }
}

/// No link to one; of this user.
bool is_own_folder(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

void remove_if_left_behind(const fs::path& folder) {
  if (!is_own_folder(folder)) return;
  const FolderLock lock = lock_folder(folder);
  if (!lock.fd) return;
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

void sweep_left_behind(const fs::path& prefix) {
  std::error_code error;
  const std::string names = prefix.filename().string() + '_';
  for (fs::directory_iterator entry(prefix.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(names)) remove_if_left_behind(entry->path());
  }
}

}  // namespace

LogFolder::LogFolder(const Options& options, const std::string& run_id, int ranks)
    : ranks_(ranks), temporary_(options.log_dir.empty() && !options.redirects.any() && !options.tee.any()) {
  if (options.log_dir.empty()) {
    sweep_left_behind(temporary_prefix());
    if (temporary_) {
      std::tie(root_, lock_) = make_temporary_folder();
    } else {
      root_ = make_unique_folder(in_temporary_folder("lockstep_launch"));
    }
  } else {
    create_folder(options.log_dir);
    root_ = make_unique_folder(fs::path(options.log_dir) / in_one_name(run_id));
  }
  begin_attempt(0);
}

void LogFolder::begin_attempt(int restarts) {
  restarts_ = restarts;
  for (int rank = 0; rank < ranks_; ++rank) create_rank_folder(of(rank));
}

LogFolder::~LogFolder() {
  std::error_code ignored;
  if (temporary_) fs::remove_all(root_, ignored);
}

std::string error_message(const fs::path& error_file) {
  const Json json = Json::parse_or_null(read_text(error_file));
  const Json& message = json["message"];
  return (message.is_string() ? message : message["message"]).get_or<std::string>({});
}

int error_code(const fs::path& error_file) {
  const Json json = Json::parse_or_null(read_text(error_file));
  return json["message"]["extraInfo"]["exit_code"].get_or<int>(0);
}

}  // namespace lockstep::launcher
