#include "runtime/output/failure.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/json.h"
#include "kernels/base/log.h"
#include "runtime/step/executor.h"

namespace lockstep::runtime {

void report_failure(const comm::FailureReport& report, const std::filesystem::path& run) {
  std::fputs(report.text().c_str(), stderr);  // unlike fmt::print it does not throw when nobody reads
  std::fflush(stderr);
  if (run.empty()) return;
  Json ranks = Json::array();
  for (const comm::RankStatus& status : report.ranks) {
    ranks.push_back({{"answered", status.last},
                     {"collective", status.call},
                     {"host", status.host},
                     {"pid", status.pid},
                     {"rank", status.rank},
                     {"where", status.where}});
  }
  const Json json{{"cause", report.cause}, {"missing", report.missing}, {"ranks", ranks}};
  try {
    write_file_atomically(run / "failure.json", json.dump(2) + '\n');
  } catch (const Error&) {
    // A folder that is not there, or a full disk, must not hide the report on the console.
  }
}

void watch_for_failure(comm::Communicator& communicator, std::shared_ptr<const StepTracker> tracker,
                       const std::filesystem::path& run) {
  const auto leave = [run](const comm::FailureReport& report) {
    if (report.claim()) report_failure(report, run);
    log::error(report.cause);
    std::_Exit(static_cast<int>(ExitCode::peer));
  };
  communicator.watch(
      {.position = [tracker = std::move(tracker)] { return tracker->describe(); }, .overdue = leave});
}

}  // namespace lockstep::runtime
