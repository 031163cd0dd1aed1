#pragma once

#include <nccl.h>

#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "comm/backoff.h"
#include "comm/nccl/functions.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// A non-blocking NCCL communicator. One thread is inside NCCL at a time: an abort is safe only so.
class NcclGroup {
 public:
  /// Begins to join the ranks with this id, on the device that is current. `peer_failed` is asked between
  /// looks, so that nobody waits for a rank that another way is known to be lost.
  NcclGroup(const NcclFunctions& nccl, ncclUniqueId id, int rank, int ranks,
            std::function<bool()> peer_failed);
  /// Aborts unless closed or abandoned.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  /// Waits until all ranks are there. CommError.
  void meet(const Deadline& deadline) { finish("NCCL's meeting", deadline, begun_); }

  /// Makes `call(communicator)` and waits until it has been made, which for a collective is long before it is
  /// done. CommError that begins with `what`.
  template <class Call>
  void make(std::string_view what, const Deadline& deadline, Call call) {
    finish(what, deadline, enter(call));
  }

  /// Why it is of no more use: NCCL's words for an error that came up since; empty when all is well.
  std::string error();

  /// Ends all its collectives at once, done or not. Its peers must do the same.
  void abort() noexcept;
  /// Makes no more calls and leaves the rest to the end of the process.
  void abandon() noexcept;
  /// Waits for the peers and leaves. All collectives are done.
  void close(const Deadline& deadline);

 private:
  template <class Call>
  ncclResult_t enter(Call call) {
    const std::lock_guard lock(mutex_);
    return communicator_ == nullptr ? ncclInvalidUsage : call(communicator_);
  }
  void finish(std::string_view what, const Deadline& deadline, ncclResult_t result);
  ncclResult_t look();
  std::string words(ncclResult_t result);

  const NcclFunctions& nccl_;
  std::function<bool()> peer_failed_;
  std::mutex mutex_;
  ncclResult_t begun_;
  ncclComm_t communicator_ = nullptr;  ///< null: aborted, abandoned or closed
};

}  // namespace lockstep::comm
