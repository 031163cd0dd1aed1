#include "tests/simgpu/engine/traffic_counter.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "tests/simgpu/engine/names.h"
#include "tests/simgpu/operation.h"

namespace simgpu {

void Cache::read(std::uint64_t sector, ByteMask bytes) {
  Line& line = line_of(sector);
  if ((bytes & ~line.present) == 0) return;
  line.present = ~ByteMask{0};
  ++moved_;
}

void Cache::write(std::uint64_t sector, ByteMask bytes) {
  Line& line = line_of(sector);
  line.present |= bytes;
  line.dirty |= bytes;
}

void Cache::empty() {
  for (Line& line : lines_) write_back(line);
  lines_ = {};
}

std::uint64_t Cache::take_moved() {
  return std::exchange(moved_, 0);
}

Cache::Line& Cache::line_of(std::uint64_t sector) {
  constexpr std::uint64_t golden_ratio = 0x9E37'79B9'7F4A'7C15;  // strides of powers of two use all sets
  const auto set = static_cast<std::size_t>((sector * golden_ratio) >> 32) % sets;
  const auto first = lines_.begin() + static_cast<std::ptrdiff_t>(set * ways);
  const auto last = first + ways;
  ++clock_;
  auto line = std::find_if(first, last, [&](const Line& l) { return l.used != 0 && l.sector == sector; });
  if (line == last) {
    line = std::min_element(first, last, [](const Line& a, const Line& b) { return a.used < b.used; });
    write_back(*line);
    *line = {.sector = sector};
  }
  line->used = clock_;
  return *line;
}

void Cache::write_back(Line& line) {
  if (line.dirty != 0) ++moved_;
  line.dirty = 0;
}

void TrafficCounter::begin(const Grid& grid) {
  current_ = {.kernel = grid.name,
              .grid = index_text({grid.blocks.x, grid.blocks.y, grid.blocks.z}) + " x " +
                      index_text({grid.threads.x, grid.threads.y, grid.threads.z})};
  pages_.clear();
}

void TrafficCounter::end() {
  cache_.empty();
  current_.moved = cache_.take_moved() * KernelTraffic::sector_bytes;
  launches_.push_back(std::move(current_));
}

void TrafficCounter::note(std::uintptr_t address, std::size_t bytes, bool writes) {
  ++current_.accesses;
  constexpr auto sector_bytes = KernelTraffic::sector_bytes;
  for (std::uintptr_t at = address; at < address + bytes;) {
    const std::size_t offset = at % sector_bytes;
    const std::size_t count = std::min(sector_bytes - offset, address + bytes - at);
    const auto mask = static_cast<ByteMask>(((std::uint64_t{1} << count) - 1) << offset);
    note_sector(at / sector_bytes, mask, writes);
    at += count;
  }
}

void TrafficCounter::note_sector(std::uint64_t sector, ByteMask bytes, bool writes) {
  Touched& touched = pages_[sector / sectors_a_page][sector % sectors_a_page];
  const ByteMask known = writes ? touched.written : touched.read | touched.written;
  current_.needed += static_cast<std::uint64_t>(std::popcount(bytes & ~known));
  (writes ? touched.written : touched.read) |= bytes;
  if (writes) {
    cache_.write(sector, bytes);
  } else {
    cache_.read(sector, bytes);
  }
}

std::vector<KernelTraffic> TrafficCounter::take() {
  return std::exchange(launches_, {});
}

TrafficCounter& traffic_counter() {
  static TrafficCounter counter;
  return counter;
}

void start_counting_traffic() {
  traffic_counter().enabled = true;
}

std::vector<KernelTraffic> take_traffic() {
  return traffic_counter().take();
}

void note_access(const void* address, std::size_t bytes, bool writes) {
  TrafficCounter& counter = traffic_counter();
  if (counter.enabled && is_device_address(address))
    counter.note(reinterpret_cast<std::uintptr_t>(address), bytes, writes);
}

}  // namespace simgpu
