// Launchers that are killed and leave their ranks behind: each rank saves and ends.
#include <fcntl.h>

#include "kernels/base/unique_fd.h"
#include "tests/cluster/mpirun.h"
#include "tests/fault/stop_runs.h"
#include "tests/support/skip.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

/// A launcher of one rank: the name of its program, and what it sets.
struct Launcher {
  const char* program;
  Words variables;
};

const Launcher mpirun{"mpirun",
                      {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_LOCAL_RANK=0",
                       "OMPI_COMM_WORLD_LOCAL_SIZE=1"}};
const Launcher torchrun{"pt_elastic",
                        {"RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", "GROUP_RANK=0",
                         "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=run"}};

/// By a shell of that name, which waits for the rank, or for a wrapper script that does.
Words started_by(const Launcher& launcher, const fs::path& folder, const Words& words) {
  const fs::path program = folder / launcher.program;
  fs::copy_file("/bin/sh", program);
  return Words{"/usr/bin/env"} + launcher.variables +
         Words{program, "-c", "\"$@\"; exit $?", "launcher", "/bin/sh", "-c", "\"$@\"; exit $?", "wrapper"} +
         words;
}

TEST_CASE("a rank whose launcher is killed saves and ends") {
  const Launcher launcher = GENERATE(mpirun, torchrun);
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  Program run(started_by(launcher, folder.path(), endless_training(run_dir)));
  wait_for_steps(run_dir);
  ::kill(run.pid(), SIGKILL);
  CHECK(run.wait_for_end() == 128 + SIGKILL);
  CHECK(has_checkpoint(run_dir));
  CHECK_THAT(run.output(), contains(std::string(launcher.program) + " (process ") &&
                               contains("is gone: stopping as at SIGTERM"));
}

/// Whether no process uses the run.
bool is_unlocked(const fs::path& run_dir) {
  const UniqueFd lock(::open((run_dir / "lock").c_str(), O_RDWR | O_CLOEXEC));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  return lock && ::fcntl(lock.get(), F_OFD_GETLK, &whole) == 0 && whole.l_type == F_UNLCK;
}

TEST_CASE("ranks whose mpirun is killed save and end, and the job starts again") {
  if (!fs::exists(MPIRUN)) return skip("this build has no MPI");
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  Program run(mpirun_words(2, endless_training(run_dir)));
  wait_for_steps(run_dir);
  ::kill(run.pid(), SIGKILL);
  CHECK(run.wait_for_end() == 128 + SIGKILL);
  wait_until_seen([&] { return is_unlocked(run_dir); });
  CHECK(has_checkpoint(run_dir));
  Program again(mpirun_words(2, endless_training(run_dir, {"--resume=auto", "--max-steps=5"})));
  CHECK(again.wait_for_end() == 0);
}

}  // namespace
}  // namespace lockstep::tests
