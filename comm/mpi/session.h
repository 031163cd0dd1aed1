#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "comm/communicator.h"
#include "comm/mpi/module.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// The collective in progress, for its deadline and for reports.
struct MpiCall {
  std::string_view kind;
  std::uint32_t number = 0;  ///< of all collectives, from 1
  ExchangeLabel label;
  Deadline deadline;

  /// "all-reduce 17 (bucket 0, fc1.weight)"
  std::string describe() const;
};

/// MPI, running: from the first `open` of a process until the last holder lets go. MPI can be started only
/// once in a process.
class MpiSession {
 public:
  /// Loads the module and starts MPI, or joins the session that is open. Errors: see make_mpi_communicator.
  /// When MPI_Init, or later MPI_Finalize, waits for a rank for longer than `timeout`, the process ends.
  /// `hint`, a literal: what else may keep a rank from MPI_Init.
  static std::shared_ptr<MpiSession> open(const World& world, Seconds timeout, const char* hint = "");

  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  /// Ends MPI. When other ranks may be waiting for us (after `give_up`, or while an exception takes this rank
  /// down), MPI_Finalize would wait for them: then all are ended together with this process.
  ~MpiSession();

  const MpiModule& module() const { return module_; }

  /// Throws when the session was given up. Each collective begins here.
  MpiCall begin(std::string_view kind, ExchangeLabel label, Seconds timeout);

  /// CommError with MPI's message when a function of the module, for `call`, gave an error code.
  void check(int error, const MpiCall& call);

  /// Until a begun collective is done. CommError, which names `call`, at its deadline or after `give_up`. MPI
  /// cannot take a begun collective back: after an error the session ends with the process.
  void wait(MpiRequest& request, const MpiCall& call);

  /// Ends the wait of this process with `reason`; when the process ends, so do all others. From any thread.
  void give_up(std::string_view reason) noexcept;
  bool given_up() const noexcept { return given_up_; }

 private:
  MpiSession(const MpiModule& module, Seconds timeout) : module_(module), timeout_(timeout) {}

  void throw_if_given_up(const MpiCall& call);
  [[noreturn]] void fail(const std::string& reason);

  const MpiModule& module_;
  const Seconds timeout_;
  std::atomic<bool> given_up_ = false;
  std::mutex mutex_;
  std::string reason_;  ///< the first one
  std::uint32_t calls_ = 0;
};

}  // namespace lockstep::comm
