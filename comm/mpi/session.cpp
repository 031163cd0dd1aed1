#include "comm/mpi/session.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <exception>

#include "comm/mpi/module.h"
#include "comm/polling.h"
#include "comm/world/world.h"
#include "kernels/base/activity.h"
#include "kernels/base/error.h"
#include "kernels/base/load_module.h"
#include "kernels/base/log.h"

namespace lockstep::comm {
namespace {

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

/// With it libmpi. Open MPI's plug-ins look for libmpi's symbols among the global ones.
const MpiModule& load_mpi_module() {
  return load_module_table<MpiModule>({.file = "liblockstep_mpi.so",
                                       .symbol = mpi_module_symbol,
                                       .hint = "install openmpi-bin, or do without MPI: --backend host, and "
                                               "between nodes MASTER_ADDR and LOCKSTEP_TOKEN",
                                       .symbols = ModuleSymbols::global},
                                      mpi_module_identity());
}

std::string error_text(const MpiModule& module, int error) {
  std::array<char, 512> text{};
  module.error_text(error, text.data(), static_cast<int>(text.size()) - 1);
  return text.data();
}

void check_same_world(const MpiModule& module, const World& world) {
  if (module.rank() == world.rank && module.size() == world.size) return;
  throw UsageError(
      fmt::format("MPI says rank {} of {}, but {} says rank {} of {}: start the ranks by one of "
                  "the two, or use --backend host",
                  module.rank(), module.size(), world.source, world.rank, world.size));
}

/// MPI's own waits cannot be interrupted: a process that is still in one at the time limit ends.
auto leaving_after(Seconds timeout, const char* hint = "") {
  return [timeout, hint](const std::string& call) {
    log::error(
        "{} was not done within {:g} s (--timeout): MPI cannot tell which rank is missing; look for one "
        "that is stopped, or ended without it{}",
        call, timeout.count(), hint);
    std::_Exit(static_cast<int>(ExitCode::peer));
  };
}

}  // namespace

std::string MpiCall::describe() const {
  return fmt::format("{} {}{}", kind, number, label.str());
}

std::shared_ptr<MpiSession> MpiSession::open(const World& world, Seconds timeout, const char* hint) {
  // MPI itself is one per process: this only mirrors it.
  static std::mutex mutex;
  static std::weak_ptr<MpiSession> current;
  static bool was_started = false;

  const std::lock_guard lock(mutex);
  auto session = current.lock();
  if (!session) {
    if (was_started) throw CommError("MPI was finalised and cannot be started again in this process");
    check_started_by_mpi(world);
    session.reset(new MpiSession(load_mpi_module(), timeout));
    was_started = true;
    const int error =
        in_time(timeout, "MPI_Init", leaving_after(timeout, hint), [&] { return session->module_.start(); });
    if (error != 0) {
      throw CommError(fmt::format("MPI_Init: {}", error_text(session->module_, error)));
    }
    current = session;
  }
  check_same_world(session->module_, world);
  return session;
}

MpiSession::~MpiSession() {
  if (given_up_ || std::uncaught_exceptions() > 0) {
    module_.abort_at_exit();
  } else {
    in_time(timeout_, "MPI_Finalize", leaving_after(timeout_), [this] { module_.finish(); });
  }
}

MpiCall MpiSession::begin(std::string_view kind, ExchangeLabel label, Seconds timeout) {
  const MpiCall call{.kind = kind, .number = ++calls_, .label = label, .deadline = Deadline::in(timeout)};
  throw_if_given_up(call);
  return call;
}

void MpiSession::wait(MpiRequest& request, const MpiCall& call) {
  Backoff backoff;
  for (int done = 0;;) {
    check(module_.test(&request, &done), call);
    if (done != 0) return;
    throw_if_given_up(call);
    if (call.deadline.passed()) {
      fail(fmt::format(
          "{} was not done within --timeout: MPI cannot tell which rank is missing, --backend host can",
          call.describe()));
    }
    backoff.pause();
  }
}

void MpiSession::throw_if_given_up(const MpiCall& call) {
  if (!given_up_) return;
  const std::lock_guard lock(mutex_);
  throw CommError(fmt::format("{}; this rank was in {}", reason_, call.describe()));
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

void MpiSession::check(int error, const MpiCall& call) {
  if (error == 0) return;
  fail(fmt::format("{}: {}", call.describe(), error_text(module_, error)));
}

void MpiSession::fail(const std::string& reason) {
  give_up(reason);
  throw CommError(reason);
}

}  // namespace lockstep::comm
