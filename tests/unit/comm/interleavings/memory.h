#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::interleavings {

inline constexpr int most_threads = 4;
inline constexpr int most_locations = 32;

/// What a thread knows of, or what one learns who reads a value: of each location the newest value, of each
/// thread how many reads that are not atomic.
struct View {
  std::array<std::uint8_t, most_locations> values{};
  std::array<std::uint8_t, most_threads> reads{};

  void join(const View& other);
};

/// Memory by the rules of C++20, which allow more than any processor does: a location keeps all its values in
/// their order of modification, and a thread may read each that is not older than one it knows of. What is
/// not there: stores that take effect before an earlier load. Source: views of Kang and others, "A promising
/// semantics for relaxed-memory concurrency", POPL 2017, without promises; sequentially consistent accesses
/// take effect in the order of execution.
class Memory {
 public:
  /// Forgets all locations and what threads know.
  void clear();

  int add_location(std::uint32_t value);
  void set_threads(int count) { threads_ = count; }

  /// How many values of `location` the thread may read.
  int readable(int thread, int location, std::memory_order order) const;
  /// `age`: 0 for the newest value.
  std::uint32_t load(int thread, int location, int age, std::memory_order order);
  void store(int thread, int location, std::uint32_t value, std::memory_order order);
  /// Adds to the newest value and returns what it was.
  std::uint32_t fetch_add(int thread, int location, std::uint32_t summand, std::memory_order order);

  /// Accesses that are not atomic: nothing, or a value, where another thread's write or read does not happen
  /// before or after this one.
  std::optional<std::uint32_t> read(int thread, int location);
  bool write(int thread, int location, std::uint32_t value);

  /// The kernel's lock of those who sleep on a location: who takes it knows what all did who have held it.
  void lock(int thread, int location);

  /// Two states with the same number go on alike.
  std::uint64_t state() const;

 private:
  struct Value {
    std::uint32_t value;
    View view;  ///< what its reader learns
  };
  struct Location {
    std::vector<Value> values;
    std::uint8_t newest_consistent = 0;
    View lock;
    std::array<std::uint8_t, most_threads> read_at{};  ///< each thread's last read that is not atomic
  };

  static std::size_t index(int of) { return static_cast<std::size_t>(of); }
  bool knows_newest(int thread, int location) const;
  /// Of each location the oldest value that a thread may still read.
  View oldest_readable() const;

  std::vector<Location> locations_ = std::vector<Location>(most_locations);
  int used_ = 0;
  int threads_ = 0;
  std::array<View, most_threads> views_{};
};

/// A hash that takes words one after the other (the finisher of SplitMix64).
std::uint64_t mixed(std::uint64_t hash, std::uint64_t word);

}  // namespace lockstep::interleavings
