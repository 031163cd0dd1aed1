#include "tests/simgpu/machine/block.h"

#include <iterator>
#include <sstream>

namespace simgpu {

std::string hex(std::uintptr_t address) {
  std::ostringstream text;
  text << "0x" << std::hex << address;
  return text.str();
}

std::uintptr_t Block::end_of_buffer(std::uintptr_t address) const {
  const auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return end();
  const auto end_of_range = std::prev(after)->second;
  return address < end_of_range ? end_of_range : end();
}

std::string Block::describe() const {
  const std::string where = kind == Kind::device   ? "of device " + std::to_string(device)
                            : kind == Kind::pinned ? "of pinned memory"
                                                   : "of registered host memory";
  return std::to_string(bytes) + " bytes " + where + " (" + hex(begin) + ", from " + allocated.text() + ")";
}

}  // namespace simgpu
