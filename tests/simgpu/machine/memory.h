#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/simgpu/machine/block.h"
#include "tests/simgpu/machine/extents.h"
#include "tests/simgpu/machine/settings.h"
#include "tests/simgpu/machine/twin_mapping.h"
#include "tests/simgpu/operation.h"

namespace simgpu {

/// The allocations of all devices and the pinned memory.
class Memory {
 public:
  explicit Memory(const Settings& settings);

  /// Null when there is no room. What device memory holds is a pattern of NaN.
  Block* allocate(Block::Kind kind, std::size_t bytes, int device, unsigned flags, Origin origin);
  Block& register_host(std::uintptr_t begin, std::size_t bytes, int device, unsigned flags, Origin origin);

  /// A mistake when something wrote beside the block.
  void release(Block& block);
  void check_pads(const Block& block) const;

  /// The block that holds the address or ends at it; null if there is none.
  Block* find(std::uintptr_t address);
  bool overlaps(std::uintptr_t begin, std::uintptr_t end) const;
  /// Why there is no block: "freed …" or never allocated. For reports.
  std::string explain_missing(std::uintptr_t address) const;
  bool was_freed(std::uintptr_t address) const;

  bool is_device(std::uintptr_t address) const { return devices_.contains(address); }
  bool is_pinned_arena(std::uintptr_t address) const { return pinned_.contains(address); }
  std::byte* view(const void* address) const;

  /// Lets kernels of one device touch its memory, or nothing touch it.
  void open(int device) const;
  void close(int device) const;
  const TwinMapping& pinned() const { return pinned_; }

  std::size_t used(int device) const { return used_[static_cast<std::size_t>(device)]; }
  std::size_t capacity() const { return capacity_; }
  const std::map<std::uintptr_t, Block>& blocks() const { return blocks_; }

 private:
  std::uintptr_t device_begin(int device) const;
  Extents& extents_of(const Block& block);
  void prepare(const Block& block);
  void remember_freed(const Block& block);

  std::size_t capacity_;
  std::size_t stride_;  ///< addresses of one device: more than its capacity, for pads and holes
  TwinMapping devices_;
  TwinMapping pinned_;
  std::vector<Extents> extents_;
  Extents pinned_extents_;
  std::vector<std::size_t> used_;
  std::vector<std::uintptr_t> highest_;  ///< end of the addresses that were ever used
  std::map<std::uintptr_t, Block> blocks_;
  std::map<std::uintptr_t, Block> freed_;
};

}  // namespace simgpu
