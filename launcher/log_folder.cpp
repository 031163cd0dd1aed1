#include "launcher/log_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/json.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;

/// Only folders that go away with their launch have it. flock(2): the kernel frees it when launch dies,
/// however that happens.
constexpr const char* lock_name = "launch.lock";

fs::path make_unique_folder(const fs::path& prefix) {
  std::string name = prefix.string() + "_XXXXXX";
  if (!mkdtemp(name.data()))
    throw DeviceError(fmt::format("cannot create '{}': {}", name, errno_message(errno)));
  return name;
}

fs::path temporary_prefix() {
  const char* folder = getenv("TMPDIR");
  return fs::path(folder && *folder ? folder : "/tmp") / "lockstep_launch";
}

void create_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw UsageError(fmt::format("--log-dir: cannot create '{}': {}", folder.string(), error.message()));
}

/// The file gets its name when the lock is held, so that nobody finds it free before. Without a lock (a file
/// system that has none) the folder is one that a killed launch leaves behind.
UniqueFd lock_folder(const fs::path& folder) {
  const fs::path unlocked = folder / "unlocked";
  UniqueFd fd(::open(unlocked.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
    ::rename(unlocked.c_str(), (folder / lock_name).c_str());
  } else {
    ::unlink(unlocked.c_str());
  }
  return fd;
}

/// No link to one; of this user.
bool is_own_folder(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

void remove_if_left_behind(const fs::path& folder) {
  if (!is_own_folder(folder)) return;
  const UniqueFd lock(::open((folder / lock_name).c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return;
  struct stat status {};
  // Without a name: another launch has just removed it.
  if (::fstat(lock.get(), &status) != 0 || status.st_nlink == 0) return;
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
    : temporary_(options.log_dir.empty() && !options.redirects.any() && !options.tee.any()) {
  if (options.log_dir.empty()) {
    sweep_left_behind(temporary_prefix());
    root_ = make_unique_folder(temporary_prefix());
    if (temporary_) lock_ = lock_folder(root_);
  } else {
    create_folder(options.log_dir);
    root_ = make_unique_folder(fs::path(options.log_dir) / run_id);
  }
  for (int rank = 0; rank < ranks; ++rank) create_folder(of(rank));
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
