#include "comm/shm/status_slot.h"

#include <algorithm>

namespace lockstep::comm {

void StatusSlot::write(std::string_view text) noexcept {
  const std::uint32_t next = version_.load(std::memory_order_relaxed) + 1;
  auto& to = texts_[next % 2];
  const std::size_t length = std::min(text.size(), most_bytes);
  for (std::size_t i = 0; i < length; ++i) to[i].store(text[i], std::memory_order_release);
  to[length].store('\0', std::memory_order_release);
  version_.store(next, std::memory_order_release);
}

std::string StatusSlot::read() const {
  while (true) {
    const std::uint32_t version = version_.load(std::memory_order_acquire);
    std::string text;
    for (const auto& letter : texts_[version % 2]) {
      const char read = letter.load(std::memory_order_acquire);
      if (read == '\0') break;
      text.push_back(read);
    }
    // Whoever read a letter of the text after the next, in the same place, sees here that the next is there.
    if (version_.load(std::memory_order_relaxed) == version) return text;
  }
}

}  // namespace lockstep::comm
