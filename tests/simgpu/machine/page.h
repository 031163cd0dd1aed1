#pragma once

#include <cstdint>

namespace simgpu {

inline constexpr std::uintptr_t page_bytes = 4096;

constexpr std::uintptr_t round_up(std::uintptr_t value, std::uintptr_t unit) {
  return (value + unit - 1) / unit * unit;
}
constexpr std::uintptr_t page_up(std::uintptr_t address) {
  return round_up(address, page_bytes);
}
constexpr std::uintptr_t page_down(std::uintptr_t address) {
  return address / page_bytes * page_bytes;
}

}  // namespace simgpu
