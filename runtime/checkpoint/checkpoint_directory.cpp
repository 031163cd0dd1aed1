#include "runtime/checkpoint/checkpoint_directory.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "kernels/base/activity.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"
#include "kernels/base/json.h"
#include "kernels/base/log.h"
#include "kernels/base/number.h"
#include "kernels/base/random.h"
#include "runtime/checkpoint/run_access.h"

namespace lockstep::runtime {
namespace {

constexpr int format = 1;

/// Whatever it is: a link that leads nowhere is there, too.
bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

std::string text_of(const std::filesystem::path& path) {
  constexpr std::uint64_t most = std::uint64_t{1} << 20;
  FileReader file(path);
  if (file.bytes() > most) throw DataError(fmt::format("{} has {} bytes", path.string(), file.bytes()));
  std::string text(file.bytes(), '\0');
  file.read(std::as_writable_bytes(std::span(text)));
  return text;
}

Json entry_for(const std::filesystem::path& file, Activity* activity) {
  Sha256 hash;
  std::uint64_t bytes = 0;
  read_in_pieces(file, [&](std::span<const std::byte> piece) {
    hash.update(piece);
    bytes += piece.size();
    if (activity != nullptr) activity->advance();
  });
  return {{"bytes", bytes}, {"sha256", hash.hex()}};
}

std::string damage_of_file(const std::filesystem::path& file, const Json& wanted, Activity* activity) {
  if (!is_there(file)) return file.string() + " is missing";
  const Json found = entry_for(file, activity);
  if (found["bytes"] == wanted["bytes"] && found["sha256"] == wanted["sha256"]) return {};
  if (found["bytes"] != wanted["bytes"]) {
    return fmt::format("{} has {} bytes, its manifest says {}", file.string(), found["bytes"].dump(),
                       wanted["bytes"].dump());
  }
  return fmt::format("{} does not have the SHA-256 of its manifest", file.string());
}

std::string damage_by_manifest(const std::filesystem::path& checkpoint, Activity* activity) {
  const std::filesystem::path path = checkpoint / manifest_file;
  if (!is_there(path)) return path.string() + " is missing";
  const Json manifest = Json::parse_or_null(text_of(path));
  if (!manifest.is_object() || !manifest.contains("files") || !manifest["files"].is_object()) {
    return path.string() + " is no manifest";
  }
  if (manifest["format"] != format) {
    return fmt::format("{} has format {}, this version reads {}", path.string(), manifest["format"].dump(),
                       format);
  }
  for (const char* name : checkpoint_files) {
    const Json& files = manifest["files"];
    if (!files.contains(name) || !files[name].is_object()) return path.string() + " lacks " + name;
    std::string damage = damage_of_file(checkpoint / name, files[name], activity);
    if (!damage.empty()) return damage;
  }
  return {};
}

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-";
constexpr std::string_view hidden_prefix = ".step-";

std::string name_of(std::int64_t step) {
  return fmt::format("{}{:08}", prefix, step);
}

[[noreturn]] void fail(const fs::path& path, const char* what, const std::string& reason) {
  throw DeviceError(
      fmt::format("{}: cannot {}: {}; check the disk and the folder", path.string(), what, reason));
}

void rename_to(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(to, "rename", errno_message(errno));
}

void warn_of_latest_once(const fs::path& latest, const std::string& reason) {
  static std::once_flag once;
  std::call_once(once, [&] {
    log::warn("{} cannot be set: {}; --resume auto finds the newest checkpoint without it", latest.string(),
              reason);
  });
}

void warn_of_old_once(const fs::path& checkpoint, const std::string& reason) {
  static std::once_flag once;
  std::call_once(once, [&] {
    log::warn("{} cannot be removed, as --keep wants: {}; what is left of such checkpoints stays",
              checkpoint.string(), reason);
  });
}

/// A folder that the destructor removes, unless `keep` was called.
class ScratchFolder {
 public:
  explicit ScratchFolder(fs::path path) : path_(std::move(path)) { make_folders(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }
  void keep() { path_.clear(); }

 private:
  fs::path path_;
};

/// Why its files cannot be removed: a person may have protected it.
std::error_code protection_of(const fs::path& checkpoint) {
  std::error_code none;
  const bool is_folder = fs::is_directory(fs::symlink_status(checkpoint, none));
  if (!is_folder || ::access(checkpoint.c_str(), W_OK) == 0) return {};
  return {errno, std::generic_category()};
}

bool has_all_files(const fs::path& checkpoint) {
  return is_there(checkpoint / manifest_file) &&
         std::ranges::all_of(checkpoint_files, [&](const char* name) { return is_there(checkpoint / name); });
}

/// What kept it or a part of it from being removed. It is hidden by one rename first, so that no reader sees
/// a half-removed checkpoint; one that is protected keeps its name, or gets it back if it is whole.
std::error_code remove_checkpoint(const fs::path& checkpoint) {
  if (const std::error_code protection = protection_of(checkpoint)) return protection;
  const fs::path hidden =
      checkpoint.parent_path() / fmt::format(".{}.{}.old", checkpoint.filename().string(), random_hex(8));
  std::error_code error;
  fs::rename(checkpoint, hidden, error);
  if (error) return error;
  fs::remove_all(hidden, error);
  std::error_code ignored;  // then it stays hidden, until `sweep` tries again
  if (error && has_all_files(hidden)) fs::rename(hidden, checkpoint, ignored);
  return error;
}

}  // namespace

void write_manifest(const std::filesystem::path& checkpoint, Activity* activity) {
  Json files = Json::object();
  for (const char* name : checkpoint_files) files[name] = entry_for(checkpoint / name, activity);
  const Json manifest{{"format", format}, {"files", files}};
  write_file_atomically(checkpoint / manifest_file, manifest.dump(2) + "\n");
}

std::string damage_of(const std::filesystem::path& checkpoint, Activity* activity) {
  try {
    const std::string reason = reason_to_distrust_checkpoint(checkpoint);
    return reason.empty() ? damage_by_manifest(checkpoint, activity) : reason;
  } catch (const Error& error) {
    return error.what();
  }
}

std::optional<std::int64_t> step_in(const std::string& name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto step = parse_number<std::int64_t>(std::string_view(name).substr(prefix.size()));
  return step && *step >= 0 && name == name_of(*step) ? step : std::nullopt;
}

fs::path CheckpointDirectory::path_of(std::int64_t step) const {
  return folder_ / name_of(step);
}

std::vector<std::int64_t> CheckpointDirectory::steps() const {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (const auto step = step_in(entry.path().filename().string())) steps.push_back(*step);
  }
  std::ranges::sort(steps, std::greater());
  return steps;
}

void CheckpointDirectory::add(std::int64_t step, const std::function<void(const fs::path&)>& fill) const {
  make_folders(folder_);
  ScratchFolder scratch(folder_ / fmt::format(".{}.{}.tmp", name_of(step), random_hex(8)));
  fill(scratch.path());
  flush_folder(scratch.path());
  const fs::path path = path_of(step);
  if (is_there(path)) {  // damaged, or of a run that resumed from an earlier step
    const std::error_code error = remove_checkpoint(path);
    if (error && is_there(path)) fail(path, "remove", error.message());
  }
  rename_to(scratch.path(), path);
  scratch.keep();
  flush_folder(folder_);
  point_latest_at(name_of(step));
}

/// Not every disk has links, and a copy of a run may have a folder of that name: it goes on without.
void CheckpointDirectory::point_latest_at(const std::string& name) const {
  const fs::path link = folder_ / fmt::format("{}latest.{}", hidden_prefix, random_hex(8));
  const fs::path latest = folder_ / "latest";
  if (::symlink(name.c_str(), link.c_str()) != 0 || ::rename(link.c_str(), latest.c_str()) != 0) {
    warn_of_latest_once(latest, errno_message(errno));
    ::unlink(link.c_str());
    return;
  }
  flush_folder(folder_);
}

void CheckpointDirectory::set_latest(std::int64_t step) const {
  std::error_code error;
  const bool is_set = fs::read_symlink(folder_ / "latest", error) == name_of(step);
  if (!is_set && is_there(path_of(step))) point_latest_at(name_of(step));
}

void CheckpointDirectory::prune(std::int64_t newest, std::int64_t keep) const {
  if (keep == 0) return;
  std::int64_t seen = 0;
  for (const std::int64_t step : steps()) {
    if (step > newest || ++seen <= keep) continue;
    const std::error_code error = remove_checkpoint(path_of(step));
    if (error) warn_of_old_once(path_of(step), error.message());
  }
}

void CheckpointDirectory::sweep() const {
  std::error_code error;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (entry.path().filename().string().starts_with(hidden_prefix)) leftovers.push_back(entry.path());
  }
  for (const fs::path& path : leftovers) fs::remove_all(path, error);
}

}  // namespace lockstep::runtime
