#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "comm/mpi/module.h"
#include "comm/world.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// MPI, running: from the first `open` of a process until the last holder lets go. MPI can be started only
/// once in a process.
class MpiSession {
 public:
  /// Loads the module and starts MPI, or joins the session that is open. Errors: see make_mpi_communicator.
  static std::shared_ptr<MpiSession> open(const World& world);

  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  /// Ends MPI. When other ranks may be waiting for us (after `give_up`, or while an exception takes this rank
  /// down), MPI_Finalize would wait for them: then all are ended together with this process.
  ~MpiSession();

  const MpiModule& module() const { return module_; }

  /// CommError with MPI's words when a call of the module, for the collective `what`, gave an error code.
  void check(int error, std::string_view what);

  /// Until a begun collective is done. CommError, which names `what`, at the deadline or after `give_up`. MPI
  /// cannot take a begun collective back: after an error the session ends with the process.
  void wait(MpiRequest& request, const Deadline& deadline, std::string_view what);

  /// Ends the wait of this process with `reason`; when the process ends, so do all others. From any thread.
  void give_up(std::string_view reason) noexcept;

 private:
  explicit MpiSession(const MpiModule& module) : module_(module) {}

  const MpiModule& module_;
  std::atomic<bool> given_up_ = false;
  std::mutex mutex_;
  std::string reason_;  ///< the first one
};

}  // namespace lockstep::comm
