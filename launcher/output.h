#pragma once

#include <poll.h>
#include <sys/resource.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/unique_fd.h"
#include "launcher/console.h"
#include "launcher/log_folder.h"
#include "launcher/options.h"
#include "launcher/worker.h"

namespace lockstep::launcher {

/// Where every worker's stdout and stderr go: console, log file or both.
class Output {
 public:
  /// Lines get the prefix of their rank in a stream that is a terminal. Ranks below are local ones; what is
  /// shown counts from `first_rank`.
  Output(const Options& options, const LogFolder& logs, int first_rank, int ranks);

  /// The descriptors to start `rank` with. stdin is ours for rank 0 unless it is a terminal (a process
  /// outside the foreground group is stopped when it reads one), and /dev/null for the others.
  StandardStreams open(int rank);
  /// The limit of descriptors that launch was started with, and workers are, if pipes and logs need a higher.
  const std::optional<rlimit>& limit_of_workers() const { return limit_of_workers_; }
  /// All workers have started: only they hold the writing ends now.
  void close_worker_ends() { worker_ends_.clear(); }

  void add_polls(std::vector<pollfd>& polls) const;
  /// A line of launch's own on stderr, after what is queued.
  void show_line(std::string_view line);
  /// The ranks were told to end: from now on a reader that has stalled does not keep them from writing.
  void drop_what_nobody_reads() { console_.drop_excess(); }
  /// The first local rank's number among all nodes.
  int first_rank() const { return first_rank_; }

  /// Moves what can be moved without waiting.
  void serve();
  /// All workers are gone: takes what their pipes still hold.
  void drain();
  bool flushed() const { return console_.empty(); }

 private:
  struct Pipe {
    UniqueFd fd;
    int rank;
    int stream;
    Lines lines;
    UniqueFd log;  ///< none: shown on the console alone
    bool log_loses_text = false;
  };

  int open_stream(int rank, int stream);
  int keep(UniqueFd fd);
  bool is_shown(int rank) const;
  std::string prefix_of(int rank, int stream) const;
  void read_some(Pipe& pipe);
  void pass_on(Pipe& pipe, std::string_view bytes);
  void close_pipe(Pipe& pipe);
  /// `from`: whose text it is; null: launch's own.
  void show(const Pipe* from, int stream, const ConsoleText& text);

  const Options& options_;
  const LogFolder& logs_;
  int first_rank_;
  int ranks_;
  std::optional<rlimit> limit_of_workers_;
  Console console_;
  std::vector<Pipe> pipes_;
  std::vector<UniqueFd> worker_ends_;
};

}  // namespace lockstep::launcher
