#include "data/files/node_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/uninterrupted.h"

namespace lockstep::data {

UniqueFd lock_in_turn(const std::filesystem::path& path, Seconds limit,
                      const std::function<std::uintmax_t()>& bytes_done, Activity::Work& waiting) {
  UniqueFd fd(uninterrupted([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); }));
  if (!fd) throw DeviceError(fmt::format("{}: cannot create: {}", path.string(), errno_message(errno)));
  Deadline deadline = Deadline::in(limit);
  std::uintmax_t seen = 0;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      throw DeviceError(fmt::format("{}: cannot lock: {}", path.string(), errno_message(errno)));
    }
    if (const std::uintmax_t bytes = bytes_done(); bytes != seen) {
      seen = bytes;
      deadline = Deadline::in(limit);
      waiting.advance();
    }
    if (deadline.passed()) throw DeviceError(fmt::format("{}: locked by another process", path.string()));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return fd;
}

std::uintmax_t bytes_of_files(const std::filesystem::path& folder,
                              const std::function<bool(const std::string& name)>& counts) {
  std::uintmax_t bytes = 0;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    if (!counts(file.path().filename().string())) continue;
    if (const std::uintmax_t size = file.file_size(error); !error) bytes += size;
  }
  return bytes;
}

}  // namespace lockstep::data
