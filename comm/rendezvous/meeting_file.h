#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "comm/rendezvous/meeting_point.h"

namespace lockstep::comm {

/// RUN/meeting, readable by its owner alone: how nodes that share a disk find rank 0. Appears whole, and goes
/// with this object unless another run has replaced it.
class MeetingFile {
 public:
  /// Makes the folder too. DeviceError when that fails.
  MeetingFile(const std::filesystem::path& run_dir, const MeetingPoint& point);
  ~MeetingFile();
  MeetingFile(const MeetingFile&) = delete;
  MeetingFile& operator=(const MeetingFile&) = delete;

  /// Nothing when there is none, or an old one of another run. UsageError when it is not the owner's alone.
  static std::optional<MeetingPoint> read(const std::filesystem::path& run_dir, const std::string& run_id);
  static std::filesystem::path in(const std::filesystem::path& run_dir) { return run_dir / "meeting"; }

 private:
  std::filesystem::path path_;
  std::string text_;
};

}  // namespace lockstep::comm
