#include "tests/simgpu/engine/names.h"

#include <cstdio>
#include <cstring>

#include "tests/simgpu/engine/multiprocessor.h"

namespace simgpu {

bool Site::same_file(const Site& other) const {
  return std::strcmp(file, other.file) == 0;
}

std::string call_text(const Call& call, std::uint32_t mask) {
  std::string text = call.name;
  if (mask) {
    char digits[16];
    std::snprintf(digits, sizeof(digits), "0x%08x", mask);
    text += " with mask " + std::string(digits);
  }
  return text + " at " + call.site.text();
}

std::string index_text(const uint3& index) {
  return "(" + std::to_string(index.x) + "," + std::to_string(index.y) + "," + std::to_string(index.z) + ")";
}

std::string running_block_text() {
  const Multiprocessor* running = Multiprocessor::running();
  if (!running) return "no kernel";
  const Grid& grid = running->grid();
  return "kernel " + grid.name + (grid.site.empty() ? "" : " (launched at " + grid.site + ")") + ", block " +
         index_text(blockIdx);
}

}  // namespace simgpu
