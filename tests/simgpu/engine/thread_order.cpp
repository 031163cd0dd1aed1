#include "tests/simgpu/engine/thread_order.h"

#include <charconv>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <string>

namespace simgpu {

ThreadOrder ThreadOrder::parse(std::string_view text) {
  if (text == "forward") return {Kind::forward, 0};
  if (text == "reverse") return {Kind::reverse, 0};
  constexpr std::string_view shuffled = "shuffled:";
  if (text.substr(0, shuffled.size()) == shuffled) {
    const std::string_view digits = text.substr(shuffled.size());
    std::uint64_t seed = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seed);
    if (error == std::errc() && end == digits.data() + digits.size()) return {Kind::shuffled, seed};
  }
  throw std::invalid_argument("SIMGPU_THREAD_ORDER=" + std::string(text) +
                              ": write forward, reverse or shuffled:SEED");
}

ThreadOrder ThreadOrder::from_environment() {
  const char* text = std::getenv("SIMGPU_THREAD_ORDER");
  return parse(text ? text : "forward");
}

Walk ThreadOrder::walk(std::uint64_t count) {
  switch (kind_) {
    case Kind::forward:
      return {count, 0, 1};
    case Kind::reverse:
      return {count, count - 1, count - 1};
    case Kind::shuffled:
      break;
  }
  std::uint64_t step = 1 + random() % count;
  while (std::gcd(step, count) != 1) step = 1 + random() % count;
  return {count, random() % count, step};
}

// splitmix64
std::uint64_t ThreadOrder::random() {
  state_ += 0x9e3779b97f4a7c15u;
  std::uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return mixed ^ (mixed >> 31);
}

}  // namespace simgpu
