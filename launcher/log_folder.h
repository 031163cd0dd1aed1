#pragma once

#include <filesystem>
#include <string>

#include "kernels/base/unique_fd.h"
#include "launcher/options.h"

namespace lockstep::launcher {

/// The folder of a run's logs and error files, laid out as torchrun does:
/// <log_dir>/<run id>_<random>/attempt_<restarts>/<local rank>/{stdout.log,stderr.log,error.json}; '/' in a
/// run id becomes '_'. Without --log-dir a temporary one, which goes away with this object unless streams are
/// redirected into it. Such folders of this user whose launch was killed are removed by the next on this
/// host, until that is booted anew.
class LogFolder {
 public:
  LogFolder(const Options& options, const std::string& run_id, int ranks);
  LogFolder(const LogFolder&) = delete;
  ~LogFolder();

  /// From now on paths are those of the ranks' start after `restarts` others: 0 at first.
  void begin_attempt(int restarts);

  std::filesystem::path error_file(int rank) const { return of(rank) / "error.json"; }
  /// `stream` is 1 (stdout) or 2 (stderr).
  std::filesystem::path stream_file(int rank, int stream) const {
    return of(rank) / (stream == 1 ? "stdout.log" : "stderr.log");
  }
  const std::filesystem::path& root() const { return root_; }

 private:
  std::filesystem::path of(int rank) const {
    return root_ / ("attempt_" + std::to_string(restarts_)) / std::to_string(rank);
  }

  std::filesystem::path root_;
  int ranks_;
  int restarts_ = 0;
  bool temporary_;
  UniqueFd lock_;  ///< of a temporary folder: held as long as this process lives
};

/// The message in a worker's error file, as torchrun's workers and our trainer write it: {"message": "..."}
/// or {"message": {"message": "...", ...}}. Empty when there is none that can be read.
std::string error_message(const std::filesystem::path& error_file);
/// The exit code in it, which our trainer adds: {"message": {"extraInfo": {"exit_code": 6}}}; 0 without.
int error_code(const std::filesystem::path& error_file);

}  // namespace lockstep::launcher
