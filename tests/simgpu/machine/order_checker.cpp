#include "tests/simgpu/machine/order_checker.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "tests/simgpu/machine/block.h"

namespace simgpu {
namespace {

[[noreturn]] void report_unordered(const Node& later, bool later_writes, const NodeInfo& earlier,
                                   bool earlier_wrote, std::uintptr_t address) {
  const bool frees = later.operation.name == "cudaFreeAsync";
  const std::string does = frees ? " frees " : later_writes ? " writes " : " reads ";
  const std::string did =
      earlier_wrote ? ", which may still be writing it" : ", which may still be reading it";
  report_mistake(frees ? "use after free in flight" : "missing event",
                 later.info->describe() + does + hex(address) + " without waiting for " + earlier.describe() +
                     did + "; record an event after the latter and let the former's stream wait for it");
}

}  // namespace

OrderChecker::Segments::const_iterator OrderChecker::first_after(std::uintptr_t address) const {
  auto segment = segments_.upper_bound(address);
  if (segment != segments_.begin() && std::prev(segment)->second.end > address) --segment;
  return segment;
}

void OrderChecker::check(const Node& node, const Use& use) const {
  for (auto at = first_after(use.begin); at != segments_.end() && at->first < use.end; ++at) {
    const auto& [begin, segment] = *at;
    const auto address = std::max(begin, use.begin);
    if (segment.write.info && !node.clock.knows(segment.write.stamp))
      report_unordered(node, use.writes, *segment.write.info, true, address);
    if (!use.writes) continue;
    for (const Act& read : segment.reads) {
      if (!node.clock.knows(read.stamp)) report_unordered(node, true, *read.info, false, address);
    }
  }
}

void OrderChecker::split(std::uintptr_t address) {
  const auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) return;
  auto& [begin, segment] = *std::prev(after);
  if (begin == address || segment.end <= address) return;
  Segment upper = segment;
  segment.end = address;
  segments_.emplace_hint(after, address, std::move(upper));
}

void OrderChecker::note(const Node& node, const Use& use) {
  if (use.begin >= use.end) return;
  split(use.begin);
  split(use.end);
  if (!use.writes) return note_read(node, use);
  segments_.erase(segments_.lower_bound(use.begin), segments_.lower_bound(use.end));
  segments_.emplace(use.begin, Segment{use.end, {node.stamp, node.info}, {}});
}

void OrderChecker::note_read(const Node& node, const Use& use) {
  std::uintptr_t filled = use.begin;
  auto at = segments_.lower_bound(use.begin);
  while (filled < use.end) {
    if (at == segments_.end() || at->first > filled) {
      const auto end = at == segments_.end() ? use.end : std::min(use.end, at->first);
      at = segments_.emplace_hint(at, filled, Segment{end, {}, {}});
    }
    auto& reads = at->second.reads;
    const auto same = std::find_if(reads.begin(), reads.end(),
                                   [&](const Act& read) { return read.stamp.actor == node.stamp.actor; });
    if (same != reads.end()) {
      *same = {node.stamp, node.info};
    } else {
      reads.push_back({node.stamp, node.info});
    }
    filled = at->second.end;
    ++at;
  }
}

NodeInfoPtr OrderChecker::unfinished(std::uintptr_t begin, std::uintptr_t end,
                                     const VectorClock& clock) const {
  for (auto at = first_after(begin); at != segments_.end() && at->first < end; ++at) {
    const Segment& segment = at->second;
    if (segment.write.info && !clock.knows(segment.write.stamp)) return segment.write.info;
    for (const Act& read : segment.reads) {
      if (!clock.knows(read.stamp)) return read.info;
    }
  }
  return nullptr;
}

void OrderChecker::forget(std::uintptr_t begin, std::uintptr_t end) {
  split(begin);
  split(end);
  segments_.erase(segments_.lower_bound(begin), segments_.lower_bound(end));
}

}  // namespace simgpu
