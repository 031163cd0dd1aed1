#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <span>

#include "comm/arena.h"
#include "comm/nccl/group.h"

namespace lockstep::comm {

/// Device memory for NCCL, zeroed, which it may reach without copies: from ncclMemAlloc, and registered as a
/// window where `as_window`.
class NcclMemory {
 public:
  /// On the current device; `stream` is one of its. All ranks pass the same.
  NcclMemory(const NcclFunctions& nccl, NcclGroup& group, std::size_t bytes, bool as_window,
             cudaStream_t stream, const Deadline& deadline);
  ~NcclMemory();
  NcclMemory(const NcclMemory&) = delete;
  NcclMemory& operator=(const NcclMemory&) = delete;

  std::byte* data() const { return data_; }

  /// Before the group closes.
  void deregister(const Deadline& deadline);
  /// Leaves the memory to the end of the process: freeing waits for what is on the GPU.
  void abandon() noexcept { data_ = nullptr; }

 private:
  const NcclFunctions& nccl_;
  NcclGroup& group_;
  std::byte* data_ = nullptr;
  NcclFunctions::Window window_ = nullptr;
};

/// The memory of all arenas of a communicator. Each goes with its arena while the group is well. Of a group
/// that has failed it stays till the communicator has aborted NCCL, since freeing waits for what is on the
/// GPU.
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
