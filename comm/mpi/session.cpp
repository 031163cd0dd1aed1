#include "comm/mpi/session.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <thread>

#include "comm/bootstrap/bootstrap.h"
#include "comm/mpi/load_module.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

/// MPI moves data only inside its calls, so `test` is called as often as the compute threads can bear:
/// without a pause as long as a transfer within a node takes, then less and less.
class Pause {
 public:
  void take() {
    if (Clock::now() - start_ < eager) {
      sched_yield();
      return;
    }
    std::this_thread::sleep_for(length_);
    length_ = std::min(longest, length_ * 2);
  }

 private:
  static constexpr std::chrono::milliseconds eager{1};
  static constexpr std::chrono::microseconds longest{100};
  Clock::time_point start_ = Clock::now();
  std::chrono::microseconds length_{10};
};

/// MPI_Init ends a process that no launcher of MPI started, or hangs when two claim one rank: look first.
void check_started_by_mpi(const World& world) {
  const Environment environment = process_environment();
  const auto rank = environment("PMIX_RANK");
  if (!rank && environment("SLURM_STEP_ID")) {
    throw UsageError("MPI: srun gave this step no PMIx: use srun --mpi=pmix, or --backend host");
  }
  if (!rank) {
    throw UsageError("MPI: not started by mpirun or srun --mpi=pmix: start it so, or use --backend host");
  }
  if (*rank != std::to_string(world.rank)) {
    throw UsageError(
        fmt::format("MPI: PMIX_RANK={}, but {} says rank {}: let mpirun start the ranks "
                    "themselves, or use --backend host",
                    *rank, world.source, world.rank));
  }
}

void check_same_world(const MpiModule& module, const World& world) {
  if (module.rank() == world.rank && module.size() == world.size) return;
  throw UsageError(
      fmt::format("MPI says rank {} of {}, but {} says rank {} of {}: start the ranks by one of "
                  "the two, or use --backend host",
                  module.rank(), module.size(), world.source, world.rank, world.size));
}

}  // namespace

std::shared_ptr<MpiSession> MpiSession::open(const World& world) {
  // MPI itself is one per process: this only mirrors it.
  static std::mutex mutex;
  static std::weak_ptr<MpiSession> current;
  static bool was_started = false;

  const std::lock_guard lock(mutex);
  auto session = current.lock();
  if (!session) {
    if (was_started) throw CommError("MPI was finalised and cannot be started again in this process");
    check_started_by_mpi(world);
    session.reset(new MpiSession(load_mpi_module()));
    was_started = true;
    session->check(session->module_.start(), "MPI_Init");
    current = session;
  }
  check_same_world(session->module_, world);
  return session;
}

MpiSession::~MpiSession() {
  if (given_up_ || std::uncaught_exceptions() > 0) {
    module_.abort_at_exit();
  } else {
    module_.finish();
  }
}

void MpiSession::wait(MpiRequest& request, const Deadline& deadline, std::string_view what) {
  Pause pause;
  for (int done = 0;;) {
    check(module_.test(&request, &done), what);
    if (done != 0) return;
    if (given_up_) {
      const std::lock_guard lock(mutex_);
      throw CommError(fmt::format("{}; this rank was in {}", reason_, what));
    }
    if (deadline.passed()) {
      const std::string reason = fmt::format(
          "{} was not done within --timeout: MPI cannot tell which rank is missing, --backend host can",
          what);
      give_up(reason);
      throw CommError(reason);
    }
    pause.take();
  }
}

void MpiSession::give_up(std::string_view reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (given_up_) return;
  try {
    reason_ = reason;
  } catch (const std::exception&) {
    // Without memory for a copy the waits end all the same.
  }
  given_up_ = true;
}

void MpiSession::check(int error, std::string_view what) {
  if (error == 0) return;
  std::array<char, 512> text{};
  module_.error_text(error, text.data(), static_cast<int>(text.size()) - 1);
  const std::string reason = fmt::format("{}: {}", what, text.data());
  give_up(reason);
  throw CommError(reason);
}

}  // namespace lockstep::comm
