#include "tests/unit/comm/interleavings/memory.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>

namespace lockstep::interleavings {
namespace {

bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

/// Of `view` with values counted from those of `oldest`.
std::uint64_t mixed(std::uint64_t hash, View view, const View& oldest) {
  std::ranges::transform(view.values, oldest.values, view.values.begin(),
                         [](std::uint8_t value, std::uint8_t from) {
                           return static_cast<std::uint8_t>(value > from ? value - from : 0);
                         });
  std::array<std::uint64_t, (sizeof(View) + 7) / 8> words{};
  std::memcpy(words.data(), &view, sizeof view);
  for (const std::uint64_t word : words) hash = interleavings::mixed(hash, word);
  return hash;
}

}  // namespace

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  std::uint64_t bits = (hash ^ word) + 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

void View::join(const View& other) {
  const auto later = [](std::uint8_t a, std::uint8_t b) { return std::max(a, b); };
  std::ranges::transform(values, other.values, values.begin(), later);
  std::ranges::transform(reads, other.reads, reads.begin(), later);
}

void Memory::clear() {
  used_ = 0;
  threads_ = 0;
  views_ = {};
}

int Memory::add_location(std::uint32_t value) {
  if (used_ == most_locations) throw std::length_error("more locations than the model of memory has");
  Location& location = locations_[index(used_)];
  location.values.assign(1, {value, {}});
  location.newest_consistent = 0;
  location.lock = {};
  location.read_at = {};
  return used_++;
}

int Memory::readable(int thread, int location, std::memory_order order) const {
  const Location& at = locations_[index(location)];
  int oldest = views_[index(thread)].values[index(location)];
  if (order == std::memory_order_seq_cst) oldest = std::max<int>(oldest, at.newest_consistent);
  return static_cast<int>(at.values.size()) - oldest;
}

std::uint32_t Memory::load(int thread, int location, int age, std::memory_order order) {
  View& view = views_[index(thread)];
  const Location& at = locations_[index(location)];
  const std::size_t place = at.values.size() - 1 - index(age);
  view.values[index(location)] = std::max(view.values[index(location)], static_cast<std::uint8_t>(place));
  if (acquires(order)) view.join(at.values[place].view);
  return at.values[place].value;
}

void Memory::store(int thread, int location, std::uint32_t value, std::memory_order order) {
  View& view = views_[index(thread)];
  Location& at = locations_[index(location)];
  const auto place = static_cast<std::uint8_t>(at.values.size());
  view.values[index(location)] = place;
  if (order == std::memory_order_seq_cst) at.newest_consistent = place;
  at.values.push_back({value, releases(order) ? view : View()});
}

std::uint32_t Memory::fetch_add(int thread, int location, std::uint32_t summand, std::memory_order order) {
  View& view = views_[index(thread)];
  const Location& at = locations_[index(location)];
  const Value before = at.values.back();
  if (acquires(order)) view.join(before.view);
  store(thread, location, before.value + summand, order);
  locations_[index(location)].values.back().view.join(before.view);  // it continues a release sequence
  return before.value;
}

bool Memory::knows_newest(int thread, int location) const {
  return readable(thread, location, std::memory_order_relaxed) == 1;
}

std::optional<std::uint32_t> Memory::read(int thread, int location) {
  if (!knows_newest(thread, location)) return std::nullopt;
  locations_[index(location)].read_at[index(thread)] = ++views_[index(thread)].reads[index(thread)];
  return locations_[index(location)].values.back().value;
}

bool Memory::write(int thread, int location, std::uint32_t value) {
  const auto& reads = locations_[index(location)].read_at;
  const View& view = views_[index(thread)];
  const bool all_reads_are_over = std::ranges::equal(
      reads, view.reads, [](std::uint8_t read, std::uint8_t known) { return read <= known; });
  if (!all_reads_are_over || !knows_newest(thread, location)) return false;
  store(thread, location, value, std::memory_order_relaxed);
  return true;
}

void Memory::lock(int thread, int location) {
  View& view = views_[index(thread)];
  View& lock = locations_[index(location)].lock;
  view.join(lock);
  lock = view;
}

View Memory::oldest_readable() const {
  View oldest = views_[0];
  for (const View& view : std::span(views_).first(index(threads_))) {
    std::ranges::transform(oldest.values, view.values, oldest.values.begin(),
                           [](std::uint8_t a, std::uint8_t b) { return std::min(a, b); });
  }
  return oldest;
}

std::uint64_t Memory::state() const {
  const View oldest = oldest_readable();
  std::uint64_t hash = 0;
  for (const View& view : views_) hash = mixed(hash, view, oldest);
  for (int i = 0; i < used_; ++i) {
    const Location& location = locations_[index(i)];
    const std::size_t from = oldest.values[index(i)];
    for (const Value& value : std::span(location.values).subspan(from))
      hash = mixed(interleavings::mixed(hash, value.value), value.view, oldest);
    std::uint32_t reads = 0;
    static_assert(sizeof reads == sizeof location.read_at);
    std::memcpy(&reads, location.read_at.data(), sizeof reads);
    const std::uint64_t consistent =
        location.newest_consistent > from ? location.newest_consistent - from : 0;
    hash = interleavings::mixed(hash, consistent + (std::uint64_t{reads} << 8));
    hash = mixed(hash, location.lock, oldest);
  }
  return hash;
}

}  // namespace lockstep::interleavings
