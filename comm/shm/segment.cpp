#include "comm/shm/segment.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "kernels/base/deadline.h"
#include "kernels/base/division.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

std::size_t page_size() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

constexpr std::uint32_t segment_magic = 0x4C4B5354;
enum AbortState : std::uint32_t { none = 0, being_written = 1, set = 2 };

void resize(int fd, std::size_t bytes) {
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0) return;
  const int error = errno;
  throw DeviceError(fmt::format("cannot reserve {} bytes of shared memory: {}{}", bytes, errno_message(error),
                                error == EFBIG ? "; raise ulimit -f, which holds for it as for files" : ""));
}

// Offsets in the file, in order: Control, then per rank a RankSlot, an affinity mask and a StatusSlot, then
// mailboxes, then arenas.
constexpr std::size_t rank_slots_offset = 1024;

std::size_t affinity_offset(int ranks) {
  return rank_slots_offset + static_cast<std::size_t>(ranks) * sizeof(RankSlot);
}

std::size_t status_slots_offset(int ranks) {
  return round_to_pages(affinity_offset(ranks) + static_cast<std::size_t>(ranks) * sizeof(cpu_set_t));
}

std::size_t mailbox_offset(int ranks) {
  return round_to_pages(status_slots_offset(ranks) + static_cast<std::size_t>(ranks) * sizeof(StatusSlot));
}

std::size_t control_bytes(int ranks) {
  return mailbox_offset(ranks) + 2 * static_cast<std::size_t>(ranks) * Segment::mailbox_bytes;
}

}  // namespace

Mapping::Mapping(int fd, std::size_t offset, std::size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED) {
    throw DeviceError(fmt::format("cannot map {} bytes of shared memory: {}", bytes, errno_message(errno)));
  }
  madvise(address, bytes, MADV_HUGEPAGE);
  bytes_ = {static_cast<std::byte*>(address), bytes};
}

Mapping::Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

void discard(std::span<std::byte> bytes) noexcept {
  madvise(bytes.data(), bytes.size(), MADV_REMOVE);
}

void populate(std::span<std::byte> bytes) {
  if (madvise(bytes.data(), bytes.size(), MADV_POPULATE_WRITE) == 0) return;
  // Older kernels: read and write back one byte a page. Only before peers use the memory.
  for (std::size_t at = 0; at < bytes.size(); at += page_size()) {
    volatile std::byte& page = bytes[at];
    page = page;
  }
}

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds at_most) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
  timespec limit{};
  limit.tv_sec = seconds.count();
  limit.tv_nsec = (at_most - seconds).count();
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::size_t round_to_pages(std::size_t bytes) {
  return rounded_up(bytes, page_size());
}

void StatusSlot::write(std::string_view text) noexcept {
  const std::uint32_t next = version_.load(std::memory_order_relaxed) + 1;
  auto& to = texts_[next % 2];
  const std::size_t length = std::min(text.size(), most_bytes);
  for (std::size_t i = 0; i < length; ++i) to[i].store(text[i], std::memory_order_release);
  to[length].store('\0', std::memory_order_release);
  version_.store(next, std::memory_order_release);
}

std::string StatusSlot::read() const {
  while (true) {
    const std::uint32_t version = version_.load(std::memory_order_acquire);
    std::string text;
    for (const auto& letter : texts_[version % 2]) {
      const char read = letter.load(std::memory_order_acquire);
      if (read == '\0') break;
      text.push_back(read);
    }
    // A reader that saw a letter of the text after the next, in the same place, sees a newer version here.
    if (version_.load(std::memory_order_relaxed) == version) return text;
  }
}

struct Segment::Control {
  std::uint32_t magic;
  std::int32_t ranks;
  std::uint64_t nonce;
  alignas(64) std::atomic<std::uint32_t> abort_state;
  std::array<char, 508> abort_reason;
  std::atomic<bool> report_claimed;
};

Segment Segment::create(int ranks, std::uint64_t nonce) {
  static_assert(sizeof(Control) <= rank_slots_offset);
  UniqueFd memfd(memfd_create("lockstep", MFD_CLOEXEC));
  if (!memfd) throw DeviceError(fmt::format("cannot create shared memory: {}", errno_message(errno)));
  resize(memfd.get(), control_bytes(ranks));
  Segment segment(std::move(memfd), ranks);
  segment.control().ranks = ranks;
  segment.control().nonce = nonce;
  segment.control().magic = segment_magic;
  return segment;
}

Segment Segment::open(UniqueFd memfd, int ranks) {
  struct stat status {};
  const bool whole =
      fstat(memfd.get(), &status) == 0 && status.st_size >= static_cast<off_t>(control_bytes(ranks));
  if (whole) {
    Segment segment(std::move(memfd), ranks);
    if (segment.control().magic == segment_magic && segment.control().ranks == ranks) return segment;
  }
  throw CommError(
      "the node's first rank handed over memory that is no Lockstep segment: do all ranks run the same "
      "version?");
}

Segment::Segment(UniqueFd memfd, int ranks)
    : memfd_(std::move(memfd)),
      ranks_(ranks),
      control_(memfd_.get(), 0, control_bytes(ranks)),
      end_(control_.size()) {}

Segment::Control& Segment::control() const {
  return *reinterpret_cast<Control*>(control_.data());
}

std::uint64_t Segment::nonce() const {
  return control().nonce;
}

RankSlot& Segment::rank_slot(int rank) const {
  return reinterpret_cast<RankSlot*>(control_.data() + rank_slots_offset)[rank];
}

std::span<std::byte> Segment::mailbox(int rank, std::uint32_t round) const {
  const std::size_t index = 2 * static_cast<std::size_t>(rank) + round % 2;
  return {control_.data() + mailbox_offset(ranks_) + index * mailbox_bytes, mailbox_bytes};
}

std::size_t Segment::claim_arenas(std::size_t stride) {
  return std::exchange(end_, end_ + static_cast<std::size_t>(ranks_) * stride);
}

void Segment::make_room() const {
  resize(memfd_.get(), end_);
}

void Segment::publish_affinity(int rank) {
  cpu_set_t* masks = reinterpret_cast<cpu_set_t*>(control_.data() + affinity_offset(ranks_));
  if (sched_getaffinity(0, sizeof(cpu_set_t), &masks[rank]) != 0) CPU_ZERO(&masks[rank]);
}

int Segment::usable_cores() const {
  const cpu_set_t* masks = reinterpret_cast<const cpu_set_t*>(control_.data() + affinity_offset(ranks_));
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int rank = 0; rank < ranks_; ++rank) CPU_OR(&all, &all, &masks[rank]);
  return CPU_COUNT(&all);
}

StatusSlot& Segment::status_slot(int rank) const {
  return reinterpret_cast<StatusSlot*>(control_.data() + status_slots_offset(ranks_))[rank];
}

void Segment::abort(std::string_view reason) noexcept {
  std::uint32_t expected = none;
  if (!control().abort_state.compare_exchange_strong(expected, being_written)) return;
  auto& text = control().abort_reason;
  const std::size_t length = std::min(reason.size(), text.size() - 1);
  std::copy_n(reason.data(), length, text.data());
  text[length] = '\0';
  control().abort_state.store(set);
  for (int rank = 0; rank < ranks_; ++rank) futex_wake_all(rank_slot(rank).round);
}

bool Segment::claim_report() noexcept {
  return !control().report_claimed.exchange(true);
}

bool Segment::aborted() const noexcept {
  return control().abort_state.load(std::memory_order_acquire) != none;
}

std::string Segment::abort_reason() const {
  // The writer may have been killed between its two stores.
  const Deadline deadline = Deadline::in(Seconds(0.1));
  while (control().abort_state.load(std::memory_order_acquire) != set) {
    if (deadline.passed()) return "a rank was lost while it reported an error";
    sched_yield();
  }
  return control().abort_reason.data();
}

}  // namespace lockstep::comm
