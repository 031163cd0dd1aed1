#include "comm/shm/call.h"

#include <fmt/format.h>

namespace lockstep::comm {
namespace {

std::string_view name_of(Call::Kind kind) {
  switch (kind) {
    case Call::Kind::allocate_arena:
      return "arena allocation";
    case Call::Kind::all_reduce:
      return "all-reduce";
    case Call::Kind::reduce_scatter:
      return "reduce-scatter";
    case Call::Kind::all_gather:
      return "all-gather";
    case Call::Kind::all_reduce_sum:
      return "sum";
    case Call::Kind::broadcast:
      return "broadcast";
    case Call::Kind::all_gather_texts:
      return "all-gather of texts";
    case Call::Kind::barrier:
      return "barrier";
  }
  return "?";
}

}  // namespace

std::uint32_t Call::signature() const {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;
  std::uint64_t mixed = static_cast<std::uint64_t>(kind) + 1;
  for (const std::uint64_t part :
       {std::uint64_t{number}, std::uint64_t{bytes}, detail, static_cast<std::uint64_t>(rounds)}) {
    mixed = (mixed ^ part) * odd;
    mixed ^= mixed >> 32;
  }
  return static_cast<std::uint32_t>(mixed);
}

std::string Call::describe() const {
  std::string text = fmt::format("{} {}", name_of(kind), number);
  if (label.bucket >= 0) text += fmt::format(" (bucket {}, {})", label.bucket, label.first_parameter);
  return text;
}

std::string explain(Barrier::Outcome outcome, const std::string& ranks, const Call& call, Seconds timeout) {
  switch (outcome) {
    case Barrier::Outcome::timed_out:
      return fmt::format("{} did not {} {} within {:g} s", ranks, call.rounds == 0 ? "reach" : "finish",
                         call.describe(), timeout.count());
    case Barrier::Outcome::peer_left:
      return fmt::format("{} left the group before the end of {}", ranks, call.describe());
    case Barrier::Outcome::mismatch:
      return fmt::format("{} made another call than {} of {} bytes: all ranks must make the same calls",
                         ranks, call.describe(), call.bytes);
    case Barrier::Outcome::aborted:
    case Barrier::Outcome::all_here:
      break;
  }
  return {};
}

}  // namespace lockstep::comm
