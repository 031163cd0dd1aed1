#pragma once

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <stdexcept>

namespace lockstep::tests {

/// Runs `action` in a forked process; its result (0 to 255) is what `wait` gives.
class ChildProcess {
 public:
  explicit ChildProcess(const std::function<int()>& action) : pid_(::fork()) {
    if (pid_ < 0) throw std::runtime_error("cannot fork");
    if (pid_ == 0) ::_exit(result_of(action));
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() {
    if (pid_ > 0) wait();
  }

  pid_t pid() const { return pid_; }

  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  static int result_of(const std::function<int()>& action) noexcept { return action(); }

  pid_t pid_;
};

/// From here on this process's mounts are its own; false if it may not have that (not root, or a strict
/// container).
inline bool have_own_mounts() {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

/// `folder` as a view of itself that cannot be written; root obeys this, unlike permissions.
inline bool make_read_only(const std::filesystem::path& folder) {
  return ::mount(folder.c_str(), folder.c_str(), nullptr, MS_BIND, nullptr) == 0 &&
         ::mount("none", folder.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) == 0;
}

/// An empty file system of 64 KiB over `folder`.
inline bool make_tiny(const std::filesystem::path& folder) {
  return ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=64k") == 0;
}

/// What a child answers when its machine does not allow what its test needs.
constexpr int not_allowed = 77;

/// What `action` gives in a process for which `folder` is an empty disk of 64 KiB; not_allowed if there can
/// be none.
inline int on_tiny_disk(const std::filesystem::path& folder, const std::function<int()>& action) {
  ChildProcess child([&] { return have_own_mounts() && make_tiny(folder) ? action() : not_allowed; });
  return child.wait();
}

}  // namespace lockstep::tests
