#include "tests/simgpu/machine/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "tests/simgpu/machine/page.h"
#include "tests/simgpu/machine/poison.h"

namespace simgpu {
namespace {

constexpr std::uintptr_t device_address = 0x2000'0000'0000;
constexpr std::uintptr_t pinned_address = 0x3000'0000'0000;
constexpr std::size_t alignment = 256;
constexpr int fresh_pattern = 0xFF;  // NaN as float, bf16 and fp16; no valid index
constexpr int pad_pattern = 0xFB;
constexpr std::size_t worth_discarding = std::size_t{1} << 20;

bool holds_only(const std::byte* bytes, std::size_t count, int value) {
  return std::all_of(bytes, bytes + count, [&](std::byte b) { return b == std::byte(value); });
}

}  // namespace

Memory::Memory(const Settings& settings)
    : capacity_(settings.device_bytes),
      stride_(page_up(2 * settings.device_bytes + (std::size_t{16} << 20))),
      devices_(device_address, stride_ * static_cast<std::size_t>(std::max(settings.devices, 1))),
      pinned_(pinned_address, settings.pinned_bytes),
      pinned_extents_(pinned_.begin(), pinned_.end(), page_bytes, page_bytes) {
  for (int device = 0; device < settings.devices; ++device) {
    const auto begin = device_begin(device);
    extents_.emplace_back(begin, begin + stride_, alignment, alignment);
    used_.push_back(0);
    highest_.push_back(begin);
  }
  poison(devices_.begin(), devices_.end() - devices_.begin());
}

std::uintptr_t Memory::device_begin(int device) const {
  return devices_.begin() + static_cast<std::size_t>(device) * stride_;
}

Extents& Memory::extents_of(const Block& block) {
  return block.kind == Block::Kind::device ? extents_[static_cast<std::size_t>(block.device)]
                                           : pinned_extents_;
}

Block* Memory::allocate(Block::Kind kind, std::size_t bytes, int device, unsigned flags, Origin origin) {
  Block block{kind, 0, bytes, device, flags, std::move(origin)};
  Extents& extents = extents_of(block);
  auto& used = used_[static_cast<std::size_t>(device)];
  if (kind == Block::Kind::device && used + extents.rounded(bytes) > capacity_) return nullptr;
  const auto begin = extents.take(bytes);
  if (!begin) return nullptr;
  block.begin = *begin;
  if (kind == Block::Kind::device) used += extents.rounded(bytes);
  prepare(block);
  return &blocks_.emplace(block.begin, std::move(block)).first->second;
}

void Memory::prepare(const Block& block) {
  Extents& extents = extents_of(block);
  const std::size_t rounded = extents.rounded(block.bytes);
  freed_.erase(freed_.lower_bound(block.begin - extents.pad()),
               freed_.lower_bound(block.begin + rounded + extents.pad()));
  if (block.kind == Block::Kind::pinned) {
    pinned_.protect(block.begin, block.begin + rounded, PROT_READ | PROT_WRITE);
    return;
  }
  auto& highest = highest_[static_cast<std::size_t>(block.device)];
  highest = std::max(highest, block.begin + rounded + extents.pad());
  std::byte* view = devices_.view(block.begin);
  std::memset(view - extents.pad(), pad_pattern, extents.pad());
  std::memset(view, fresh_pattern, block.bytes);
  std::memset(view + block.bytes, pad_pattern, rounded - block.bytes + extents.pad());
  unpoison(block.begin, block.bytes);
}

Block& Memory::register_host(std::uintptr_t begin, std::size_t bytes, int device, unsigned flags,
                             Origin origin) {
  Block block{Block::Kind::registered, begin, bytes, device, flags, std::move(origin)};
  return blocks_.emplace(begin, std::move(block)).first->second;
}

void Memory::release(Block& block) {
  if (block.kind != Block::Kind::registered) {
    check_pads(block);
    Extents& extents = extents_of(block);
    const std::size_t rounded = extents.rounded(block.bytes);
    if (block.kind == Block::Kind::device) {
      used_[static_cast<std::size_t>(block.device)] -= rounded;
      poison(block.begin, block.bytes);
      if (rounded >= worth_discarding) devices_.discard(block.begin, block.begin + rounded);
    } else {
      pinned_.protect(block.begin, block.begin + rounded, PROT_NONE);
      pinned_.discard(block.begin, block.begin + rounded);
    }
    extents.give_back(block.begin, block.bytes);
    remember_freed(block);
  }
  blocks_.erase(block.begin);
}

void Memory::remember_freed(const Block& block) {
  freed_.insert_or_assign(block.begin, block);
}

void Memory::check_pads(const Block& block) const {
  if (block.kind != Block::Kind::device) return;  // pinned memory has closed pages around it
  const std::byte* view = devices_.view(block.begin);
  const std::size_t slack = round_up(std::max<std::size_t>(block.bytes, 1), alignment) - block.bytes;
  if (holds_only(view - alignment, alignment, pad_pattern) &&
      holds_only(view + block.bytes, slack + alignment, pad_pattern))
    return;
  report_mistake("out of bounds", "something wrote just before or after " + block.describe() +
                                      "; check the kernels' index against the size");
}

Block* Memory::find(std::uintptr_t address) {
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return nullptr;
  Block& block = std::prev(after)->second;
  return address <= block.end() ? &block : nullptr;
}

bool Memory::overlaps(std::uintptr_t begin, std::uintptr_t end) const {
  auto block = blocks_.upper_bound(begin);
  if (block != blocks_.begin() && std::prev(block)->second.end() > begin) return true;
  return block != blocks_.end() && block->first < end;
}

bool Memory::was_freed(std::uintptr_t address) const {
  const auto after = freed_.upper_bound(address);
  return after != freed_.begin() && address <= std::prev(after)->second.end();
}

std::string Memory::explain_missing(std::uintptr_t address) const {
  if (!was_freed(address)) return hex(address) + " was never allocated";
  const Block& block = std::prev(freed_.upper_bound(address))->second;
  const std::string by = block.freed_by.empty() ? "" : " at " + block.freed_by;
  return hex(address) + " lies in " + block.describe() + ", which was freed" + by;
}

std::byte* Memory::view(const void* pointer) const {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (devices_.contains(address)) return devices_.view(address);
  if (pinned_.contains(address)) return pinned_.view(address);
  return const_cast<std::byte*>(static_cast<const std::byte*>(pointer));
}

void Memory::open(int device) const {
  const auto end = highest_[static_cast<std::size_t>(device)];
  if (end > device_begin(device)) devices_.protect(device_begin(device), end, PROT_READ | PROT_WRITE);
}

void Memory::close(int device) const {
  const auto end = highest_[static_cast<std::size_t>(device)];
  if (end > device_begin(device)) devices_.protect(device_begin(device), end, PROT_NONE);
}

}  // namespace simgpu
