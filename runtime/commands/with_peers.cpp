#include "runtime/commands/with_peers.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include <fmt/format.h>

#include "kernels/base/activity.h"
#include "kernels/base/cut_file_guard.h"
#include "runtime/commands/commands.h"
#include "runtime/output/failure.h"

namespace lockstep::runtime {
namespace {

/// Every rank waits for the others' last words, so that the one report has them all; one rank shows it.
[[noreturn]] void end_with_report(Session& session, const std::filesystem::path& run,
                                  const CommError& error) {
  const auto report = session.communicator->failure_report();
  if (!report) throw error;
  if (report->claim()) report_failure(*report, run);
  throw CommError(report->cause);
}

/// This rank has failed by itself: its peers end, and if it is the one that prints, all wait for its report.
void tell_peers(Session& session, const std::filesystem::path& run, const ToldError& error) {
  session.communicator->abort(error.message);
  // First, as launch may kill this rank when its peers have left while it still writes a checkpoint.
  write_error_file(error.message, error.code);
  // Without a run yet all ranks mostly find the same, and launch's SIGTERM still ends a rank that waits.
  if (run.empty()) return;
  const auto report = session.communicator->failure_report();
  if (report && report->claim()) report_failure(*report, run);
}

/// Ends this rank when its own work hangs, such as a read from a disk, or has met a file that was cut:
/// nothing can interrupt that or wait for its end.
class HungRank {
 public:
  HungRank(Session& session, double timeout)
      : session_(session),
        limit_(limit_within(timeout)),
        watch_(
            *session.activity, limit_, [this](const std::string& what) { leave_hung(what); },
            [this] {
              if (const auto report = cut_file_report()) leave(*report, ExitCode::data);
            }) {}

  /// Known by now: RUN/, for the report.
  void set_run(const std::filesystem::path& run) {
    const std::lock_guard lock(mutex_);
    run_ = run;
  }

 private:
  /// Sooner than the peers give up on this rank, so that all know the cause.
  static Seconds limit_within(double timeout) { return Seconds(timeout - std::min(timeout / 4, 1.0)); }

  [[noreturn]] void leave_hung(const std::string& what) {
    leave(fmt::format("{}: no progress for {:.3g} s; is a disk stuck, or --timeout too short for it?", what,
                      limit_.count()),
          ExitCode::device);
  }

  [[noreturn]] void leave(const std::string& message, ExitCode code) {
    session_.communicator->abort(message);
    const auto report = session_.communicator->failure_report();
    const std::lock_guard lock(mutex_);
    if (report && report->claim()) report_failure(*report, run_);
    std::_Exit(report_error(message, code));
  }

  Session& session_;
  const Seconds limit_;
  std::mutex mutex_;
  std::filesystem::path run_;
  const CutFileReports cut_file_reports_;
  StallWatch watch_;
};

}  // namespace

int with_peers(Session& session, double timeout, const std::function<ExitCode(const SetRun&)>& body) {
  HungRank hung_rank(session, timeout);
  std::filesystem::path run;
  try {
    return static_cast<int>(body([&](const std::filesystem::path& folder) {
      run = folder;
      hung_rank.set_run(folder);
    }));
  } catch (const CommError& error) {
    end_with_report(session, run, error);
  } catch (const UsageError&) {
    throw;  // all ranks throw it: what one alone may find goes through `judged_on_all_ranks`
  } catch (const std::exception& error) {
    tell_peers(session, run, told(error));
    throw;
  }
}

}  // namespace lockstep::runtime
