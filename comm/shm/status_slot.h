#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::comm {

/// A line of text in shared memory, from one thread to all others: a sequence lock (Boehm, "Can seqlocks get
/// along with programming language memory models?", MSPC 2012) over two texts, so that readers need no pause
/// of the writer. Zeroed memory is a status_slot that says "".
class alignas(64) StatusSlot {
 public:
  static constexpr std::size_t most_bytes = 500;

  /// By one thread at a time. What is longer is cut.
  void write(std::string_view text) noexcept;
  /// The newest whole text.
  std::string read() const;

 private:
  std::atomic<std::uint32_t> version_;  ///< text version % 2 is whole
  std::array<std::array<std::atomic<char>, most_bytes + 1>, 2> texts_;
};

}  // namespace lockstep::comm
