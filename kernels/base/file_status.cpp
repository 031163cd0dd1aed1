#include "kernels/base/file_status.h"

#include <sys/stat.h>

#include <system_error>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep {

std::filesystem::file_status status_at(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() != std::filesystem::file_type::none) return status;
  throw DataError(fmt::format(
      "{}: cannot be reached: {}; see that you may enter the folders above it, and where links lead",
      path.string(), error.message()));
}

const char* kind_name(mode_t mode) {
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

void require_replaceable(const std::filesystem::path& path) {
  std::error_code is_no_link;
  const bool is_stream = std::filesystem::read_symlink(path, is_no_link).string().starts_with("/proc/");
  struct stat status {};
  if (!is_stream && (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode))) return;
  throw DeviceError(fmt::format("{}: is {}, not a file; name another", path.string(),
                                is_stream ? "an open stream" : kind_name(status.st_mode)));
}

}  // namespace lockstep
