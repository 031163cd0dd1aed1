#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/fault/nemesis/processes.h"
#include "tests/fault/nemesis/round.h"

namespace lockstep::nemesis {

struct Victim {
  std::string name;  ///< "rank 2", "launch 0", "reaper 0"
  pid_t pid = 0;
};

/// What one start of a run came to.
struct Outcome {
  struct Host {
    int code = 0;              ///< of its launch
    std::string output;        ///< of its launch and ranks
    bool was_stopped = false;  ///< nemesis, as its operator, told it that the other host will not come
  };
  std::vector<Host> hosts;
  bool was_struck = false;
  long passes = 0;  ///< of the process whose moment came
  std::vector<Victim> victims;
  std::filesystem::file_time_type start;
  Seconds time_to_end{0};  ///< from the strike to the end of all launches
  bool hung = false;
  std::vector<std::string> left;  ///< processes that outlived them
};

/// A run of a round in a folder of its own, which is started as often as it takes.
class Job {
 public:
  /// `data`: the folder of its pictures.
  Job(const Round& round, std::filesystem::path folder, std::filesystem::path data);

  /// With a strike, or undisturbed; `resumes` what an earlier start left.
  Outcome start(const Strike* strike, bool resumes);

  /// RUN of this host; on a shared disk the same for all.
  std::filesystem::path run_of(int host) const;
  /// Where its processes put temporary files.
  std::filesystem::path temporary_folder() const { return folder_ / "tmp"; }
  int port() const { return port_; }

 private:
  /// Made by the hook (hook.h) of this start.
  std::filesystem::path struck_file() const;
  /// Whether a rank of this start, in which the hook is, has begun its first step.
  bool trains() const;
  Command command(int host, const Strike* strike, bool resumes) const;
  void wait(const std::vector<pid_t>& launches, bool is_struck, Outcome& outcome);
  void read_strike(Outcome& outcome) const;

  Round round_;
  std::filesystem::path folder_;
  std::filesystem::path data_;
  int port_;
  int starts_ = 0;
};

/// What `trainer` takes for CIFAR-10, of a few pictures.
void write_pictures(const std::filesystem::path& folder);

}  // namespace lockstep::nemesis
