#include "runtime/checkpoint/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/host.h"
#include "kernels/base/log.h"
#include "runtime/checkpoint/checkpoint_directory.h"

namespace lockstep::runtime {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, int error) {
  throw DeviceError(
      fmt::format("{}: cannot be written: {}; name another --run-dir", file.string(), errno_message(error)));
}

void write_holder(const UniqueFd& fd, const std::filesystem::path& file, const std::string& run_id) {
  const std::string holder = fmt::format("{} process {} run {}\n", host_name(), ::getpid(), run_id);
  const auto size = static_cast<ssize_t>(holder.size());
  if (::ftruncate(fd.get(), 0) != 0 || ::pwrite(fd.get(), holder.data(), holder.size(), 0) != size) {
    fail(file, errno);
  }
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& run, const std::string& run_id) {
  const std::filesystem::path file = run / "lock";
  fd_ = UniqueFd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644));
  if (!fd_) fail(file, errno);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(fd_.get(), F_OFD_SETLK, &whole) == 0) {
    write_holder(fd_, file, run_id);
    return;
  }
  if (errno == EAGAIN || errno == EACCES) {
    throw UsageError(fmt::format("{} is in use by {}: wait for it, or name another --run-dir", run.string(),
                                 first_line(file)));
  }
  log::warn("{} cannot be locked here ({}): see that no second run uses it", file.string(),
            errno_message(errno));
}

std::optional<RunLock> lock_run(comm::Communicator& communicator, const RunDirectory& run_directory) {
  std::optional<RunLock> lock;
  std::string problem;
  if (run_directory.writes_checkpoints) {
    try {
      lock.emplace(run_directory.run, communicator.world().run_id);
    } catch (const UsageError& error) {
      problem = error.what();
    }
  }
  throw_any_problem<UsageError>(communicator, problem);
  if (lock) {
    sweep_temporaries(run_directory.run);
    CheckpointDirectory(run_directory.checkpoints()).sweep();
  }
  return lock;
}

}  // namespace lockstep::runtime
