#pragma once

#include <nccl.h>

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "comm/arena.h"
#include "comm/nccl/functions.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// A non-blocking NCCL communicator. One thread is inside NCCL at a time: an abort is safe only so.
class NcclGroup {
 public:
  /// Begins to join the ranks with this id, on the device that is current. `peer_failed` is asked between
  /// looks, so that no wait goes on for a rank that is already known to be lost.
  NcclGroup(const NcclFunctions& nccl, ncclUniqueId id, int rank, int ranks,
            std::function<bool()> peer_failed);
  /// Aborts unless closed or abandoned.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  /// Waits until all ranks are there. Errors as `make`.
  void rendezvous(const Deadline& deadline);

  /// Makes `call(communicator)` and waits until it has been made, which for a collective is long before it is
  /// done. CommError that begins with `what`; DeviceError where the reason lies with this rank: its GPU,
  /// which may have failed in an earlier kernel, or what NCCL wants of the machine.
  template <class Call>
  void make(std::string_view what, const Deadline& deadline, Call call) {
    finish(what, deadline, enter(call));
  }

  /// NCCL's message for an asynchronous error; empty without one.
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
  [[noreturn]] void refuse(std::string_view what, ncclResult_t result);
  ncclResult_t poll_state();
  std::string message_of(ncclResult_t result);

  const NcclFunctions& nccl_;
  std::function<bool()> peer_failed_;
  std::mutex mutex_;
  ncclResult_t begun_;
  ncclComm_t communicator_ = nullptr;  ///< null: never made, aborted, abandoned or closed
  bool is_aborted_ = false;            ///< or abandoned
  bool has_met_ = false;               ///< the rendezvous is over
};

/// Device memory for NCCL, zeroed, which it may reach without copies: from ncclMemAlloc, and registered as a
/// window where `as_window` and NCCL has one for these GPUs, else as a buffer. So walked collectives find it
/// registered like those of graphs, and choose alike.
class NcclMemory {
 public:
  /// On the current device.
  NcclMemory(const NcclFunctions& nccl, NcclGroup& group, std::size_t bytes);
  ~NcclMemory();
  NcclMemory(const NcclMemory&) = delete;
  NcclMemory& operator=(const NcclMemory&) = delete;

  std::byte* data() const { return data_; }

  /// `stream` is one of the device's; all ranks pass the same otherwise. Where it throws, NCCL may write to
  /// this object until the group has aborted.
  void prepare(bool as_window, cudaStream_t stream, const Deadline& deadline);
  /// Before the group closes.
  void deregister(const Deadline& deadline);
  /// Leaves the memory to the end of the process: freeing waits for what is on the GPU.
  void abandon() noexcept { data_ = nullptr; }

 private:
  const NcclFunctions& nccl_;
  NcclGroup& group_;
  const std::size_t bytes_;
  std::byte* data_ = nullptr;
  NcclFunctions::Window window_ = nullptr;
  void* registration_ = nullptr;
};

/// The memory of all arenas of a communicator. Each goes with its arena while the group is well. Of a group
/// that has failed it stays to the end of the process, since what is on the GPU may still use it.
class NcclArenas : public std::enable_shared_from_this<NcclArenas> {
 public:
  NcclArenas(const void* owner, const NcclFunctions& nccl, NcclGroup& group, std::function<bool()> failed)
      : owner_(owner), nccl_(nccl), group_(group), failed_(std::move(failed)) {}

  /// See NcclMemory. The arena may outlive this.
  std::unique_ptr<Arena> allocate(DType dtype, std::int64_t elements, bool as_window, cudaStream_t stream,
                                  const Deadline& deadline);
  void give_back(const NcclMemory& memory) noexcept;

  void deregister_all(const Deadline& deadline);
  void abandon_all() noexcept;
  void free_all() noexcept { memory_.clear(); }

 private:
  const void* owner_;
  const NcclFunctions& nccl_;
  NcclGroup& group_;
  std::function<bool()> failed_;
  std::uint32_t arenas_ = 0;
  std::list<NcclMemory> memory_;
};

}  // namespace lockstep::comm
