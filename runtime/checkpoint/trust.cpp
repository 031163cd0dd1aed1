#include "runtime/checkpoint/trust.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

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

std::string reason_to_distrust_run(const fs::path& run) {
  // The person named RUN: it may be a link.
  if (std::string reason = reason_to_distrust(fs::weakly_canonical(run)); !reason.empty()) return reason;
  for (const char* name : {"lock", "config.ini", "log.jsonl", "summary.json", "failure.json",
                           "model.safetensors", "checkpoints"}) {
    if (std::string reason = reason_to_distrust(run / name); !reason.empty()) return reason;
    const auto status = status_of(run / name);
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
  if (!S_ISDIR(status->st_mode)) return fmt::format("{} is no folder", checkpoint.string());
  if (status->st_uid != ::geteuid() && status->st_uid != 0 && status->st_uid != above->st_uid) {
    return fmt::format("{} belongs to user {}", checkpoint.string(), status->st_uid);
  }
  return reason_to_distrust(checkpoint);
}

}  // namespace lockstep::runtime
