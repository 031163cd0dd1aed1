#include "tests/simgpu/machine/pinned_guards.h"

#include <sys/mman.h>

#include <algorithm>

#include "tests/simgpu/machine/page.h"

namespace simgpu {

void PinnedGuards::guard(const Node& node, const Use& use, const Block& block) {
  const auto begin = use.begin == block.begin ? page_down(use.begin) : page_up(use.begin);
  const auto end = use.end == block.end() ? page_up(use.end) : page_down(use.end);
  if (begin >= end) return;
  guards_.push_back({begin, end, use.writes, node.stamp, node.info});
  protect_again(begin, end);
}

void PinnedGuards::release(const VectorClock& host) {
  const auto known = std::partition(guards_.begin(), guards_.end(),
                                    [&](const Guard& guard) { return !host.knows(guard.stamp); });
  const std::vector<Guard> released(known, guards_.end());
  guards_.erase(known, guards_.end());
  for (const Guard& guard : released) protect_again(guard.begin, guard.end);
}

void PinnedGuards::close_again(Stamp kernel) const {
  for (const Guard& guard : guards_) {
    if (guard.stamp == kernel) protect_again(guard.begin, guard.end);
  }
}

void PinnedGuards::forget(std::uintptr_t begin, std::uintptr_t end) {
  guards_.erase(std::remove_if(guards_.begin(), guards_.end(),
                               [&](const Guard& guard) { return guard.begin < end && guard.end > begin; }),
                guards_.end());
}

int PinnedGuards::protection_of(std::uintptr_t page) const {
  int protection = PROT_READ | PROT_WRITE;
  for (const Guard& guard : guards_) {
    if (guard.begin >= page + page_bytes || guard.end <= page) continue;
    if (guard.writes) return PROT_NONE;
    protection = PROT_READ;
  }
  return protection;
}

void PinnedGuards::protect_again(std::uintptr_t begin, std::uintptr_t end) const {
  auto run_begin = page_down(begin);
  int protection = protection_of(run_begin);
  for (auto page = run_begin + page_bytes; page < end; page += page_bytes) {
    const int next = protection_of(page);
    if (next == protection) continue;
    pinned_.protect(run_begin, page, protection);
    run_begin = page;
    protection = next;
  }
  pinned_.protect(run_begin, end, protection);
}

const PinnedGuards::Guard* PinnedGuards::guard_at(std::uintptr_t address) const {
  const Guard* found = nullptr;
  for (const Guard& guard : guards_) {
    if (address < guard.begin || address >= guard.end) continue;
    if (!found || guard.writes) found = &guard;
  }
  return found;
}

}  // namespace simgpu
