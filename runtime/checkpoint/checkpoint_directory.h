#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {
class Activity;
}

namespace lockstep::runtime {

/// The files of a checkpoint whose checksums are in its manifest.
inline constexpr const char* checkpoint_files[] = {"model.safetensors", "optimizer.safetensors",
                                                   "state.json"};
inline constexpr const char* manifest_file = "manifest.json";

/// RUN/checkpoints on one disk: a folder step-00001200 for each checkpoint, and the link `latest` to the
/// newest, for people; a warning where it cannot be made. A checkpoint appears whole or not at all;
/// `damage_of` finds later damage on the disk.
class CheckpointDirectory {
 public:
  explicit CheckpointDirectory(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path path_of(std::int64_t step) const;
  /// Steps of all checkpoints, whole or not; the newest first.
  std::vector<std::int64_t> steps() const;

  /// Lets `fill` write the files into a folder beside the final name, flushes it, renames it, moves `latest`.
  /// A DeviceError (full disk) leaves the directory unchanged.
  void add(std::int64_t step, const std::function<void(const std::filesystem::path& folder)>& fill) const;

  /// Removes the oldest until `keep` are left up to and including step `newest`, which always stays; 0 keeps
  /// all. Later ones stay: a run that resumed from an earlier step has not reached them yet. What cannot be
  /// removed stays after a warning: it only tidies up.
  void prune(std::int64_t newest, std::int64_t keep) const;

  /// Moves `latest` to the checkpoint of this step, if it is there: a run that was killed may have left it
  /// behind.
  void set_latest(std::int64_t step) const;

  /// Removes half-written and half-removed checkpoints of a killed process.
  void sweep() const;

 private:
  void point_latest_at(const std::string& name) const;

  std::filesystem::path folder_;
};

/// The step in the name of a checkpoint's folder, "step-00001200".
std::optional<std::int64_t> step_in(const std::string& name);

/// Writes manifest.json: size and SHA-256 of each file of the checkpoint.
void write_manifest(const std::filesystem::path& checkpoint, Activity* activity = nullptr);

/// What is wrong with a checkpoint (a file missing, truncated, or with another checksum); empty if it is
/// whole.
std::string damage_of(const std::filesystem::path& checkpoint, Activity* activity = nullptr);

}  // namespace lockstep::runtime
