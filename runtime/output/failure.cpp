#include "runtime/output/failure.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/json.h"
#include "kernels/base/log.h"
#include "kernels/base/signals.h"
#include "runtime/step/executor.h"

namespace lockstep::runtime {

namespace {

constexpr const char* failure_file = "failure.json";

/// On a thread of its own, which a disk that hangs may keep for ever.
void write_in_time(const std::filesystem::path& path, const std::string& text) {
  constexpr Seconds patience{0.5};
  std::packaged_task<void()> task([path, text] {
    std::error_code ignored;
    if (std::filesystem::exists(path.parent_path(), ignored)) write_file_atomically(path, text);
  });
  std::future<void> written = task.get_future();
  const SignalsBlocked on_the_new_thread;
  std::thread(std::move(task)).detach();
  if (written.wait_for(patience) == std::future_status::timeout) {
    log::warn("{} may be missing: its disk has not taken it within {:g} s", path.string(), patience.count());
    return;
  }
  try {
    written.get();
  } catch (const std::exception& error) {
    log::warn("{} is missing: {}", path.string(), error.what());
  }
}

}  // namespace

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
  write_in_time(run / failure_file, json.dump(2) + '\n');
}

void remove_failure(const std::filesystem::path& run) {
  std::error_code ignored;
  std::filesystem::remove(run / failure_file, ignored);
}

void watch_for_failure(comm::Communicator& communicator, std::shared_ptr<const StepTracker> tracker,
                       const Activity& activity, const std::filesystem::path& run) {
  const auto leave = [run](const comm::FailureReport& report) {
    if (report.claim()) report_failure(report, run);
    log::error(report.cause);
    std::_Exit(static_cast<int>(ExitCode::peer));
  };
  const auto position = [tracker = std::move(tracker), &activity] {
    const std::string work = activity.describe();
    return work.empty() ? tracker->describe() : fmt::format("{}: {}", tracker->describe(), work);
  };
  communicator.watch(
      {.position = position, .progress = [&activity] { return activity.advances(); }, .overdue = leave});
}

}  // namespace lockstep::runtime
