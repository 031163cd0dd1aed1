#include "comm/rendezvous/run_secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "comm/net/credentials.h"
#include "kernels/base/error.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t most_bytes = 4096;

bool is_own_group(gid_t group) {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(getgroups(0, nullptr), 0)));
  const int count = getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(count, 0)));
  groups.push_back(getegid());
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

/// Kubernetes gives a secret's file to root, and lets the pod's fsGroup read it (mode 0440). Root's group is
/// no such group.
bool is_mounted_for_own_group(const struct stat& status) {
  const bool is_roots_alone = geteuid() == 0 && status.st_gid == getegid();
  return status.st_uid == 0 && (status.st_mode & 037) == 0 && !is_roots_alone && is_own_group(status.st_gid);
}

/// Nothing for a file that is not there: on NFS one that has been replaced is there no more. Another start
/// may read what a disk does not give now, so that is no wrong use.
std::nullopt_t not_read(const std::filesystem::path& path, int error) {
  if (error == ENOENT || error == ESTALE) return std::nullopt;
  const std::string problem = fmt::format("cannot read {}: {}", path.string(), errno_message(error));
  const auto wrong = {EACCES, EPERM, ENOTDIR, ELOOP, ENAMETOOLONG, ENXIO};
  if (std::ranges::find(wrong, error) != wrong.end())
    throw UsageError(problem + ": name a file that this user may read");
  throw DeviceError(problem + ": is its disk in order?");
}

void check_private(const std::filesystem::path& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) {
    throw UsageError(fmt::format("{} is {}: name a file that holds the secret", path.string(),
                                 S_ISFIFO(status.st_mode) ? "a FIFO" : "no regular file"));
  }
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    throw UsageError(fmt::format(
        "{} belongs to user {}: a secret's file must be your own; copy it, or remove it{}", path.string(),
        status.st_uid,
        geteuid() == 0
            ? ". Where a disk gives root's files to another user (root_squash), give LOCKSTEP_TOKEN"
            : ""));
  }
  if ((status.st_mode & 077) == 0 || is_mounted_for_own_group(status)) return;
  throw UsageError(fmt::format("{0} can be read by others (mode {1:03o}): chmod 600 {0}", path.string(),
                               status.st_mode & 0777));
}

void drop_blanks_at_end(std::string& text) {
  text.resize(text.find_last_not_of(" \t\r\n") + 1);
}

}  // namespace

std::optional<std::string> read_private_file(const std::filesystem::path& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0) return not_read(path, errno);
  check_private(path, status);
  std::string text(most_bytes + 1, '\0');
  const ssize_t length = read(fd.get(), text.data(), text.size());
  if (length < 0) return not_read(path, errno);
  if (static_cast<std::size_t>(length) > most_bytes) {
    throw UsageError(
        fmt::format("{} has more than {} bytes: it is no secret's file", path.string(), most_bytes));
  }
  text.resize(static_cast<std::size_t>(length));
  return text;
}

std::optional<std::string> given_secret(const CommOptions& options, const Environment& environment) {
  const std::string file = options.token_file.string();
  if (options.insecure && !file.empty()) {
    throw UsageError("--insecure and --token-file exclude each other: give one of them");
  }
  if (options.insecure) return std::string();
  auto text = file.empty() ? environment(token_variable) : read_private_file(options.token_file);
  if (!text && file.empty()) return std::nullopt;
  if (!text) throw UsageError(fmt::format("--token-file {}: there is no such file", file));
  drop_blanks_at_end(*text);
  if (text->size() < least_secret_bytes) {
    const std::string where = file.empty() ? token_variable : "--token-file " + file;
    throw UsageError(fmt::format("{} has {} bytes, and a secret needs {}: make one with openssl rand -hex 32",
                                 where, text->size(), least_secret_bytes));
  }
  return text;
}

}  // namespace lockstep::comm
