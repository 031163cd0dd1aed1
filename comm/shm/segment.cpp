#include "comm/shm/segment.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "comm/shm/futex.h"
#include "kernels/base/deadline.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

constexpr std::uint32_t segment_magic = 0x4C4B5354;
enum AbortState : std::uint32_t { none = 0, being_written = 1, set = 2 };

void resize(int fd, std::size_t bytes) {
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0) return;
  throw DeviceError(fmt::format("cannot reserve {} bytes of shared memory: {}", bytes, errno_message(errno)));
}

}  // namespace

struct Segment::Control {
  std::uint32_t magic;
  std::int32_t ranks;
  std::uint64_t nonce;
  alignas(64) std::atomic<std::uint32_t> abort_state;
  std::array<char, 508> abort_reason;
};

namespace {

// Offsets in the file, in order: control, a line, an affinity mask and a status_slot per rank, mailboxes,
// arenas.
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
