#include "tests/simgpu/nccl/faults.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace simgpu::nccl {
namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view{} : value;
}

std::uint64_t number(std::string_view text, std::uint64_t otherwise) {
  std::from_chars(text.data(), text.data() + text.size(), otherwise);
  return otherwise;
}

}  // namespace

Polls::Polls(int rank)
    : state_(number(variable("SIMGPU_NCCL_SEED"), 0) << 16 ^ static_cast<std::uint64_t>(rank)) {}

int Polls::draw() {
  // splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
  std::uint64_t mixed = state_ += 0x9E3779B97F4A7C15;
  mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB;
  return static_cast<int>((mixed ^ mixed >> 31) % 4);
}

bool fails_at(std::uint64_t collective, int rank) {
  const std::string_view wish = variable("SIMGPU_NCCL_FAIL_AT");
  if (number(wish, 0) != collective) return false;
  const std::size_t at = wish.find('@');
  return at == std::string_view::npos || number(wish.substr(at + 1), 0) == static_cast<std::uint64_t>(rank);
}

bool is_absent(int rank) {
  const std::string_view wish = variable("SIMGPU_NCCL_ABSENT");
  return !wish.empty() && number(wish, 0) == static_cast<std::uint64_t>(rank);
}

int version() {
  std::string_view text = variable("SIMGPU_NCCL_VERSION");
  if (text.empty()) text = "2.30.7";
  int code = 0;
  for (const int unit : {10000, 100, 1}) {
    const std::size_t dot = std::min(text.find('.'), text.size());
    code += static_cast<int>(number(text.substr(0, dot), 0)) * unit;
    text.remove_prefix(std::min(dot + 1, text.size()));
  }
  return code;
}

bool is_fully_connected() {
  return variable("SIMGPU_NCCL_LINK") != "pcie";
}

bool dead_peer_is_error() {
  return variable("SIMGPU_NCCL_DEAD_PEER") == "error";
}

}  // namespace simgpu::nccl
