#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "comm/net/credentials.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// What rank 0 gives the others when no launcher did: the store's address and the run's secret.
struct MeetingPoint {
  std::string address;
  int port = 0;
  Credentials credentials;
};

/// Five lines: address, port, run id, secret, which start of the run it is.
std::string to_text(const MeetingPoint& point);
/// Nothing when the text is something else.
std::optional<MeetingPoint> parse_meeting_point(std::string_view text);

/// RUN/meeting, readable by its owner alone: nodes that share a disk find rank 0 by it. It appears whole, and
/// is removed with this object unless another run has replaced it.
class MeetingFile {
 public:
  /// Makes the folder too; DeviceError when that fails. What another start of this run, or another run, has
  /// put there goes to `inspect`, which throws when that one lives; else it is replaced. A process whose disk
  /// does not answer within `timeout` ends.
  MeetingFile(const std::filesystem::path& run_dir, const MeetingPoint& point, Seconds timeout,
              const std::function<void(const MeetingPoint&)>& inspect = {});
  ~MeetingFile();
  MeetingFile(const MeetingFile&) = delete;
  MeetingFile& operator=(const MeetingFile&) = delete;

  /// Of whatever run it is. Nothing when there is none. UsageError when it is not the owner's alone,
  /// DeviceError when the disk fails.
  static std::optional<MeetingPoint> read(const std::filesystem::path& run_dir, Seconds timeout);
  static std::filesystem::path in(const std::filesystem::path& run_dir) { return run_dir / "meeting"; }

 private:
  void replace(const std::function<void(const MeetingPoint&)>& inspect) const;
  /// False when there is one already.
  bool publish(const std::filesystem::path& draft) const;
  void replace_old(const std::filesystem::path& aside,
                   const std::function<void(const MeetingPoint&)>& inspect) const;

  std::filesystem::path path_;
  Seconds timeout_;
  std::string text_;
};

}  // namespace lockstep::comm
