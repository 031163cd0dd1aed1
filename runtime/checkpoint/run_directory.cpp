#include "runtime/checkpoint/run_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/host.h"
#include "kernels/base/json.h"
#include "kernels/base/unique_fd.h"
#include "runtime/checkpoint/checkpoint_directory.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

/// A file of rank 0 in RUN/; other ranks that see it share the disk.
class Marker {
 public:
  explicit Marker(fs::path path)
      : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
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

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw DeviceError(fmt::format("{}: cannot be made: {}", path.string(), error.message()));
}

std::string marker_name() {
  return fmt::format(".same-disk-{}-{}", ::getpid(),
                     std::chrono::steady_clock::now().time_since_epoch().count());
}

/// The same text on two ranks of a machine if, and only if, the path is the same folder for both. When the
/// folder does not exist yet, its nearest existing parent identifies it.
std::string disk_of(const fs::path& path) {
  fs::path above = fs::absolute(path);
  while (!fs::exists(above) && above.has_relative_path()) above = above.parent_path();
  struct stat info {};
  ::stat(above.c_str(), &info);
  return fmt::format("{} {} {} {}", boot_id(), info.st_dev, info.st_ino,
                     fs::absolute(path).lexically_relative(above).string());
}

bool resumes_in(const fs::path& run, const std::string& resume) {
  if (!names_a_path(resume)) return resume == "auto";
  const auto normal = [](const fs::path& path) { return (fs::absolute(path) / "").lexically_normal(); };
  const auto resumed = run_of(resume);
  return resumed && normal(*resumed) == normal(run);
}

}  // namespace

bool holds_a_run(const fs::path& run) {
  return fs::exists(run / "summary.json") || !CheckpointDirectory(run / "checkpoints").steps().empty();
}

std::optional<fs::path> run_of(const fs::path& resumed) {
  const fs::path path = resumed.has_filename() ? resumed : resumed.parent_path();
  if (path.filename() == "checkpoints") return path.parent_path();
  if (path.parent_path().filename() == "checkpoints") return path.parent_path().parent_path();
  if (fs::exists(path / "state.json")) return std::nullopt;
  return path;
}

bool names_a_path(const std::string& resume) {
  return resume != "auto" && resume != "none";
}

std::string default_resume(const comm::Environment& environment) {
  for (const char* name : {"TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"}) {
    if (std::atoi(environment(name).value_or("0").c_str()) > 0) return "auto";
  }
  return "none";
}

fs::path run_folder(const Options& options, const std::string& model, const comm::World& world) {
  if (!options.run_dir.empty()) return options.run_dir;
  if (names_a_path(options.resume)) {
    if (const auto run = run_of(options.resume)) return *run;
  }
  return fs::path("runs") / fmt::format("{}-{}-{}", model, options.dataset, world.run_id);
}

RunDirectory agree_on_run_directory(comm::Communicator& communicator, const fs::path& run,
                                    const std::string& resume) {
  const int rank = communicator.world().rank;
  std::optional<Marker> marker;
  Json decision;
  if (rank == 0) {
    make_folder(run);
    decision = {{"run", run.string()},
                {"resume", resume},
                {"resuming", resumes_in(run, resume)},
                {"marker", marker_name()}};
    marker.emplace(run / decision["marker"].get<std::string>());
  }
  decision = Json::parse(communicator.all_gather(decision.dump()).front());
  RunDirectory run_directory{.run = decision["run"].get<std::string>(),
                             .resume = decision["resume"].get<std::string>(),
                             .resuming = decision["resuming"].get<bool>()};
  const bool on_disk_of_rank_0 = fs::exists(run_directory.run / decision["marker"].get<std::string>());
  const std::vector<std::string> disks =
      communicator.all_gather(on_disk_of_rank_0 ? std::string() : disk_of(run_directory.run));
  const std::string& mine = disks[static_cast<std::size_t>(rank)];
  run_directory.writes_checkpoints = std::ranges::find(disks, mine) - disks.begin() == rank;
  return run_directory;
}

void require_unused(comm::Communicator& communicator, const RunDirectory& run_directory) {
  const bool used =
      run_directory.writes_checkpoints && !run_directory.resuming && holds_a_run(run_directory.run);
  throw_any_problem<UsageError>(
      communicator,
      used ? fmt::format("{} already holds a run: go on with --resume auto, or name another --run-dir",
                         run_directory.run.string())
           : std::string());
}

}  // namespace lockstep::runtime
