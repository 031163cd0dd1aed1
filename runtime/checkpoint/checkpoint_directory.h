#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::runtime {

/// The files of a checkpoint that its manifest vouches for.
inline constexpr const char* checkpoint_files[] = {"model.safetensors", "optimizer.safetensors",
                                                   "state.json"};
inline constexpr const char* manifest_file = "manifest.json";

/// RUN/checkpoints on one disk: a folder step-00001200 for each checkpoint, and the link `latest` to the
/// newest. A checkpoint is there whole or not at all; at most `damage_of` finds what the disk did to it
/// since.
class CheckpointDirectory {
 public:
  explicit CheckpointDirectory(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path path_of(std::int64_t step) const;
  /// Steps of the checkpoints that are there, whole or not; the newest first.
  std::vector<std::int64_t> steps() const;

  /// Lets `fill` write the files into a folder beside the final name, flushes it, renames it, moves `latest`.
  /// The DeviceError of a full disk passes and leaves all as it was.
  void add(std::int64_t step, const std::function<void(const std::filesystem::path& folder)>& fill) const;

  /// Removes the oldest until `keep` are left up to and with step `newest`, which stays in any case; 0 keeps
  /// all. Later ones stay: they are what a run that went on from an earlier step has not reached yet.
  void prune(std::int64_t newest, std::int64_t keep) const;

  /// Removes what a killed process left half written or half removed.
  void sweep() const;

 private:
  void point_latest_at(const std::string& name) const;

  std::filesystem::path folder_;
};

/// The step in the name of a checkpoint's folder, "step-00001200".
std::optional<std::int64_t> step_in(const std::string& name);

/// Writes manifest.json: size and SHA-256 of each file of the checkpoint.
void write_manifest(const std::filesystem::path& checkpoint);

/// What is wrong with a checkpoint, with the file's name: missing, truncated, another checksum; empty if it
/// is whole.
std::string damage_of(const std::filesystem::path& checkpoint);

}  // namespace lockstep::runtime
