#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/cores.h"
#include "launcher/exit_status.h"

namespace lockstep::launcher {

/// What the report tells about one rank beside its status.
struct RankFacts {
  int rank = 0;  ///< among all nodes
  int pid = 0;
  Clock::time_point started;
  std::string message;  ///< from its error file; may be empty
};

/// "2 ranks on 2 cores: 1 thread each, bound to cores 0 | 1". `threads` as the user set it, or empty.
std::string start_line(const Cores& cores, const std::vector<CpuList>& slices, int ranks,
                       const std::string& threads);

/// The lines that explain a run that did not end well: the first cause, its message, what happened to the
/// others. `ranks` is indexed by local rank, which statuses hold too; `passed_on` is the signal that launch
/// was asked to end with, if any.
std::string failure_report(const ExitStatus& cause, const std::vector<ExitStatus>& statuses,
                           const std::vector<RankFacts>& ranks, const std::string& host,
                           std::optional<int> passed_on);

}  // namespace lockstep::launcher
