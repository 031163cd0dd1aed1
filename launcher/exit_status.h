#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/base/deadline.h"

namespace lockstep::launcher {

/// How one worker ended.
struct ExitStatus {
  int rank = 0;    ///< local
  int code = 0;    ///< exit code, when it left by itself
  int signal = 0;  ///< else the signal that killed it
  Clock::time_point when;
  bool after_failure = false;  ///< launch was already stopping the ranks because of another's failure
  bool killed_by_us = false;   ///< launch had sent SIGKILL
  int told_code = 0;           ///< what its error file tells that it leaves with; 0 without

  bool good() const { return code == 0 && signal == 0; }
  bool stopped() const { return code == 75; }   ///< saved and left as asked
  bool lost_peer() const { return code == 5; }  ///< left because another rank went away
  /// A failure that stops the other ranks.
  bool failed() const { return !good() && !stopped(); }
  /// Says no more than that it was asked to stop, if it was: it ended well, or of such a signal, which a
  /// shell with a trap tells as 128 + n.
  bool tells_only_of_stop() const;
  /// A code that `trainer` leaves with for a reason of its own, never because of another rank: wrong use, bad
  /// data, device, a value that is not finite. Its error file counts, too: it may not live until its end.
  bool has_own_cause() const {
    const int own = signal == 0 ? code : told_code;
    return own == 2 || own == 3 || own == 4 || own == 6;
  }
  /// Its program says that it fails by its words, its data or its numbers: so it would once more.
  bool would_fail_again() const { return told_code == 2 || told_code == 3 || told_code == 6; }
  /// As a shell tells it: 128 + n for signal n.
  int exit_code() const {
    if (killed_by_us && has_own_cause()) return told_code;
    return signal != 0 ? 128 + signal : code;
  }
};

/// Of two processes of a rank that was told to end, a wrapper script and what it had started, the status that
/// tells more: 75 before any other, and last those that ended well or of the signal that told them to.
ExitStatus more_telling(const ExitStatus& wrapper, const ExitStatus& later);
/// The same with what its error file tells that the trainer in it has left with: a script's trap hides that.
ExitStatus more_telling(const ExitStatus& wrapper, int told_code);

/// The status that decides the run, of all in the order seen; none when every rank left with 0. The first
/// failure counts, never a secondary one: a rank that left with 5, or after launch began to stop the ranks,
/// yields to one that did not; a rank that left with 5 also to one that ended later for a reason of its own.
std::optional<ExitStatus> root_cause(const std::vector<ExitStatus>& statuses);

/// "was killed by SIGKILL", "left with exit code 3"; of several ranks "were killed ...".
std::string describe(const ExitStatus& status, std::size_t ranks = 1);

/// What the report tells about one rank beside its status.
struct RankFacts {
  int rank = 0;  ///< among all nodes
  int pid = 0;
  Clock::time_point started;
  std::string message;  ///< from its error file; may be empty
};

/// The lines that explain a run that did not end well: the first cause, its message, what happened to the
/// others. `ranks` is indexed by local rank, which statuses hold too; `passed_on` is the signal that launch
/// was asked to end with, if any.
std::string failure_report(const ExitStatus& cause, const std::vector<ExitStatus>& statuses,
                           const std::vector<RankFacts>& ranks, const std::string& host,
                           std::optional<int> passed_on);

}  // namespace lockstep::launcher
