// launch's reaper: nobody but launch has to wait for it, and it kills nobody else's processes.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <memory>

#include "tests/fault/launch_process.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/skip.h"

namespace lockstep::launcher {
namespace {

using tests::child_named;
using tests::ChildProcess;

bool has_no_child() {
  siginfo_t info = {};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
}

/// A process in a group of its own with this number, which must be free; none where that cannot be chosen.
std::unique_ptr<ChildProcess> process_numbered(pid_t number) {
  for (const Deadline deadline = Deadline::in(tests::patience); !deadline.passed();) {
    std::ofstream last("/proc/sys/kernel/ns_last_pid");
    if (!(last << (number - 1) << std::flush)) return nullptr;
    auto child = std::make_unique<ChildProcess>([] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      return pause();
    });
    if (child->pid() == number) {
      setpgid(number, number);
      return child;
    }
    kill(child->pid(), SIGKILL);
  }
  return nullptr;
}

TEST_CASE("launch leaves no zombie where its parent, a container's first process, reaps nobody") {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  LaunchProcess launch({"--nproc_per_node=2", "true"});
  CHECK(launch.wait_for_end() == 0);
  CHECK(has_no_child());
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_CASE("a reaper that is stopped, or was killed, keeps launch from nothing") {
  const int signal_number = GENERATE(SIGSTOP, SIGKILL);
  LaunchProcess launch({"--nproc_per_node=2", "sh", "-c", "echo pid$RANK=$$.; exec sleep 1000"});
  launch.wait_for(".\n", 2);
  const pid_t reaper = child_named(launch.pid(), "launch-reaper");
  kill(reaper, signal_number);
  CHECK((signal_number == SIGSTOP ? tests::wait_until_stopped(reaper) : wait_until_gone(reaper)));
  kill(launch.pid(), SIGTERM);
  CHECK(launch.wait_for_end() == 128 + SIGTERM);
}

TEST_CASE("a rank's group is forgotten with what the rank had left behind: its number may be another's") {
  LaunchProcess launch({"--nproc_per_node=1", "--max_restarts=1", "sh", "-c",
                        "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && { echo again.; exec sleep 1000; }; "
                        "echo first=$$.; sleep 1000 & exit 1"});
  launch.wait_for("again.\n");
  const pid_t reaper = child_named(launch.pid(), "launch-reaper");
  const auto other = process_numbered(launch.number_after("first"));
  if (!other) return tests::skip("the numbers of processes cannot be chosen here");
  kill(launch.pid(), SIGKILL);
  CHECK(wait_until_gone(reaper));
  kill(other->pid(), SIGUSR1);
  CHECK(other->wait() == 128 + SIGUSR1);
}

}  // namespace
}  // namespace lockstep::launcher
