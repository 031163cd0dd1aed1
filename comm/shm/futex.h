#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep::comm {

/// Sleeps while `word` holds `expected`, at most this long; may wake for no reason. `word` may lie in memory
/// that processes share.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds at_most);

void futex_wake_all(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace lockstep::comm
