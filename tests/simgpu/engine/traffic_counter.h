#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tests/simgpu/engine/grid.h"
#include "tests/simgpu/engine/traffic.h"

namespace simgpu {

/// Bits stand for the bytes of a sector.
using ByteMask = std::uint32_t;
static_assert(8 * sizeof(ByteMask) == KernelTraffic::sector_bytes);

/// A cache of whole sectors, each with the bytes of it that are there and those that memory does not have
/// yet.
class Cache {
 public:
  void read(std::uint64_t sector, ByteMask bytes);
  /// Fetches nothing: a GPU's cache knows which bytes were written.
  void write(std::uint64_t sector, ByteMask bytes);
  void empty();
  /// Sectors that were fetched or written back, since the last call.
  std::uint64_t take_moved();

 private:
  struct Line {
    std::uint64_t sector = 0;
    std::uint64_t used = 0;
    ByteMask present = 0;
    ByteMask dirty = 0;
  };
  static constexpr std::size_t ways = 16;
  static constexpr std::size_t sets = KernelTraffic::cache_bytes / KernelTraffic::sector_bytes / ways;

  Line& line_of(std::uint64_t sector);
  void write_back(Line& line);

  std::array<Line, sets * ways> lines_{};
  std::uint64_t clock_ = 0;
  std::uint64_t moved_ = 0;
};

/// Counts the launches of this process, one at a time.
class TrafficCounter {
 public:
  void begin(const Grid& grid);
  void end();
  void note(std::uintptr_t address, std::size_t bytes, bool writes);
  std::vector<KernelTraffic> take();

  bool enabled = false;

 private:
  struct Touched {
    ByteMask read = 0;
    ByteMask written = 0;
  };
  static constexpr std::size_t sectors_a_page = 128;

  void note_sector(std::uint64_t sector, ByteMask bytes, bool writes);

  Cache cache_;
  std::unordered_map<std::uint64_t, std::array<Touched, sectors_a_page>> pages_;
  KernelTraffic current_;
  std::vector<KernelTraffic> launches_;
};

TrafficCounter& traffic_counter();

}  // namespace simgpu
