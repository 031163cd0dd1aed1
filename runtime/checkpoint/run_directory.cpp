#include "runtime/checkpoint/run_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/host.h"
#include "kernels/base/json.h"
#include "kernels/base/number.h"
#include "kernels/base/random.h"
#include "kernels/base/uninterrupted.h"
#include "kernels/base/unique_fd.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/run_access.h"
#include "runtime/weights/weights_file.h"
#include "runtime/weights/write_weights.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

/// A file of rank 0 in RUN/; other ranks that see it share the disk. Named as one that `sweep_temporaries`
/// takes when a killed run has left it.
class Marker {
 public:
  explicit Marker(fs::path path)
      : path_(std::move(path)), fd_(uninterrupted([this] {
          return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        })) {
    if (!fd_) {
      throw DeviceError(fmt::format("{}: cannot be written: {}; name another --run-dir",
                                    path_.parent_path().string(), errno_message(errno)));
    }
  }
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;
  ~Marker() { ::unlink(path_.c_str()); }

 private:
  fs::path path_;
  UniqueFd fd_;
};

/// The same text on two ranks of a machine if, and only if, the path is the same folder for both. When the
/// folder does not exist yet, its nearest existing parent identifies it.
std::string disk_of(const fs::path& path) {
  const fs::path above = nearest_existing(path);
  struct stat info {};
  ::stat(above.c_str(), &info);
  return fmt::format("{} {} {} {}", boot_id(), info.st_dev, info.st_ino,
                     fs::absolute(path).lexically_relative(above).string());
}

/// For each text the position of the first that equals it.
std::vector<int> lowest_of_equals(const std::vector<std::string>& texts) {
  std::vector<int> lowest;
  for (const std::string& text : texts) {
    lowest.push_back(static_cast<int>(std::ranges::find(texts, text) - texts.begin()));
  }
  return lowest;
}

/// The folder that holds it; of a link that which holds the link.
fs::path above(const fs::path& path) {
  if (path.filename() == "." || path.filename() == "..") return path / "..";
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

bool resumes_in(const fs::path& run, const std::string& resume) {
  if (!names_a_path(resume)) return resume == "auto";
  const auto normal = [](const fs::path& path) { return (fs::absolute(path) / "").lexically_normal(); };
  const auto resumed = run_of(resume);
  return resumed && normal(*resumed) == normal(run);
}

/// Of a --resume that names one file of a checkpoint, and of a RUN beneath nothing.
std::string reason_to_refuse(const fs::path& run, const std::string& resume) {
  std::error_code ignored;
  if (run.is_relative() && fs::current_path(ignored).empty())
    return "the working directory has been removed: cd to one that is there, or give an absolute --run-dir";
  if (!names_a_path(resume) || !fs::is_regular_file(resume, ignored)) return {};
  return fmt::format("--resume {}: is a file; name the folder RUN/checkpoints/step-N, or its RUN", resume);
}

/// Of what a run writes in RUN/ or removes there. config.json has many other uses.
bool would_be_lost(const fs::path& file) {
  const std::string name = file.filename().string();
  if (name == "config.json") return Json::parse_or_null(read_text(file)).contains("model_type");
  return names_weights(name) || name == "config.ini";
}

/// A run makes its log before any of these: what stands there without it is somebody's own.
std::string reason_to_keep_files(const fs::path& run) {
  std::error_code ignored;
  const bool is_of_a_run = fs::exists(run / "log.jsonl", ignored) && fs::exists(run / "config.ini", ignored);
  if (is_of_a_run || holds_a_run(run)) return {};
  for (const auto& entry : fs::directory_iterator(run, ignored)) {
    if (!would_be_lost(entry.path())) continue;
    return fmt::format("{} holds {}, which no run has made there: name another --run-dir", run.string(),
                       entry.path().filename().string());
  }
  return {};
}

bool has_checkpoints(const fs::path& run) {
  return !CheckpointDirectory(run / "checkpoints").steps().empty();
}

/// The last step of a run that was not stopped, by its summary.json.
std::optional<std::int64_t> finished_step(const fs::path& run) {
  const Json summary = Json::parse_or_null(read_text(run / "summary.json"));
  if (summary["stopped"].get_or(true)) return std::nullopt;
  return summary["steps"].get_or(std::int64_t{0});
}

/// Of the newest checkpoint, whole or not; -1 for none.
std::int64_t newest_step(const fs::path& run) {
  const std::vector<std::int64_t> steps = CheckpointDirectory(run / "checkpoints").steps();
  return steps.empty() ? -1 : steps.front();
}

/// Of a folder that this process has made, and that goes again, no hint can name what to take from it.
std::string reason_to_refuse_folder(const fs::path& run, bool is_made) {
  std::string reason = reason_to_distrust_run(run);
  if (reason.empty() || !is_made) return reason;
  return fmt::format("{} could be written by others: set umask 022, or make it first: mkdir -m 755 {}",
                     run.string(), run.string());
}

}  // namespace

fs::path nearest_existing(const fs::path& path) {
  fs::path nearest = fs::absolute(path);
  std::error_code ignored;  // as of a loop of links
  while (!fs::exists(nearest, ignored) && nearest.has_relative_path()) nearest = nearest.parent_path();
  return nearest;
}

bool holds_a_run(const fs::path& run) {
  std::error_code ignored;
  return fs::exists(run / "summary.json", ignored) || has_checkpoints(run);
}

bool is_finished(const fs::path& run) {
  return finished_step(run).has_value();
}

std::optional<fs::path> run_of(const fs::path& resumed) {
  const fs::path path = resumed.has_filename() ? resumed : resumed.parent_path();
  std::error_code ignored;
  if (fs::exists(path / "checkpoints", ignored)) return path;
  // What is typed in RUN or in RUN/checkpoints need not name these.
  const fs::path whole = (fs::absolute(path) / "").lexically_normal().parent_path();
  if (whole.filename() == "checkpoints") return above(path);
  if (whole.parent_path().filename() == "checkpoints") return above(above(path));
  if (fs::exists(path / "state.json", ignored)) return std::nullopt;
  return path;
}

bool names_a_path(const std::string& resume) {
  return !resume.empty() && resume != "auto" && resume != "none";
}

fs::path run_folder(const Options& options, const std::string& model, const comm::World& world) {
  if (!options.run_dir.empty()) return options.run_dir;
  if (names_a_path(options.resume)) {
    if (const auto run = run_of(options.resume)) return *run;
  }
  return fs::path("runs") / fmt::format("{}-{}-{}", model, options.dataset, world.run_id);
}

std::vector<int> ranks_of_disks(comm::Communicator& communicator, const fs::path& path) {
  return lowest_of_equals(communicator.all_gather(disk_of(path)));
}

RunDirectory agree_on_run_directory(comm::Communicator& communicator, const fs::path& run,
                                    const std::string& resume, Activity* activity) {
  const int rank = communicator.world().rank;
  std::optional<NewRunFolder> made;
  std::optional<Marker> marker;
  std::string problem;
  Json decision;
  if (rank == 0) {
    const Activity::Work work(activity, "making " + run.string());
    problem = reason_to_refuse(run, resume);
    if (problem.empty()) {
      mask_writes_of_foreign_group(run);
      if (make_folders(run)) made.emplace(run, activity);
      problem = reason_to_refuse_folder(run, made.has_value());
    }
    if (problem.empty()) problem = reason_to_keep_files(run);
    decision = {{"resuming", resumes_in(run, resume)},
                {"marker", fmt::format(".same-disk.{}.tmp", random_hex(8))}};
    if (problem.empty()) marker.emplace(run / decision["marker"].get<std::string>());
  }
  throw_any_problem<UsageError>(communicator, problem);
  decision = Json::parse(communicator.all_gather(decision.dump()).front());
  // Paths are bytes: JSON would change those that are no UTF-8.
  RunDirectory run_directory{.run = communicator.all_gather(run.string()).front(),
                             .resume = communicator.all_gather(resume.empty() ? "none" : resume).front(),
                             .resuming = decision["resuming"].get<bool>(),
                             .disk_ranks = {}};
  run_directory.disk_ranks = lowest_of_equals(communicator.all_gather([&] {
    const Activity::Work work(activity, "looking at " + run_directory.run.string());
    mask_writes_of_foreign_group(run_directory.run);
    std::error_code ignored;
    const fs::path seen = run_directory.run / decision["marker"].get<std::string>();
    return fs::exists(seen, ignored) ? std::string() : disk_of(run_directory.run);
  }()));
  run_directory.writes_checkpoints = run_directory.disk_ranks[static_cast<std::size_t>(rank)] == rank;
  if (run_directory.writes_checkpoints && rank != 0) {
    const Activity::Work work(activity, "making " + run_directory.run.string());
    if (make_folders(run_directory.run)) made.emplace(run_directory.run, activity);
    problem = reason_to_refuse_folder(run_directory.run, made.has_value());
  }
  throw_any_problem<UsageError>(communicator, problem);
  run_directory.is_new = made.has_value();
  if (made) made->keep();
  return run_directory;
}

std::string reason_to_spare(comm::Communicator& communicator, const RunDirectory& run_directory,
                            Activity* activity) {
  const fs::path& run = run_directory.run;
  bool is_used = false;
  bool has_ended = false;
  std::string checkpoints;
  if (run_directory.writes_checkpoints) {
    const Activity::Work work(activity, "looking at " + run.string());
    is_used = !run_directory.resuming && holds_a_run(run);
    has_ended = is_finished(run);
    if (has_checkpoints(run)) checkpoints = "some";
  }
  const std::vector<std::string> of_disks = communicator.all_gather(checkpoints);
  const auto is_empty = [](const std::string& text) { return text.empty(); };
  const bool is_lost = is_used || run_directory.resume == "auto";
  if (is_lost && has_ended && std::ranges::all_of(of_disks, is_empty)) {
    return fmt::format("{} holds a finished run and no checkpoint to go on from: name another --run-dir",
                       run.string());
  }
  if (!is_used) return {};
  return fmt::format("{} already holds a run: go on with --resume auto, or name another --run-dir",
                     run.string());
}

void require_unfinished(comm::Communicator& communicator, const RunDirectory& run_directory,
                        const std::string& damage, Activity* activity) {
  std::string problem;
  if (run_directory.writes_checkpoints) {
    const Activity::Work work(activity, "looking at " + run_directory.run.string());
    if (is_finished(run_directory.run)) {
      problem = fmt::format(
          "{} holds a finished run and no whole checkpoint to go on from ({}): name another --run-dir",
          run_directory.run.string(), damage);
    }
  }
  throw_any_problem<UsageError>(communicator, problem);
}

void require_end_saved(comm::Communicator& communicator, const RunDirectory& run_directory, bool continues,
                       Activity* activity) {
  const fs::path& run = run_directory.run;
  const bool looks = run_directory.writes_checkpoints && run_directory.resuming && continues;
  std::optional<std::int64_t> finished;
  std::int64_t newest = -1;
  if (looks) {
    const Activity::Work work(activity, "looking at " + run.string());
    finished = finished_step(run);
    newest = newest_step(run);
  }
  for (const std::string& of_disk : communicator.all_gather(std::to_string(newest)))
    newest = std::max(newest, parse_number<std::int64_t>(of_disk).value_or(-1));
  std::string problem;
  if (finished && *finished > newest) {
    problem = fmt::format(
        "{} holds a run that finished after step {}, and its newest checkpoint is of step {}: name another "
        "--run-dir, or train again from there by --resume {}",
        run.string(), *finished, newest,
        CheckpointDirectory(run_directory.checkpoints()).path_of(newest).string());
  }
  throw_any_problem<UsageError>(communicator, problem);
}

void require_unused(comm::Communicator& communicator, const RunDirectory& run_directory, Activity* activity) {
  throw_any_problem<UsageError>(communicator, reason_to_spare(communicator, run_directory, activity));
}

}  // namespace lockstep::runtime
