#include "tests/simgpu/nccl/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "kernels/base/error.h"
#include "tests/simgpu/nccl/failure.h"

namespace simgpu::nccl {

struct alignas(64) Segment::Header {
  std::atomic<std::int32_t> ranks;
  std::atomic<std::uint32_t> rings;
};

namespace {

constexpr std::size_t mailboxes_per_rank = 2;

[[noreturn]] void fail(const std::string& what) {
  throw Failure(ncclSystemError, fmt::format("{}: {}", what, lockstep::errno_message(errno)));
}

struct flock byte_of(int rank) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

Segment::Segment(const std::string& name, int rank, int ranks)
    : name_(name), ranks_(ranks), file_(shm_open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {
  if (!file_) fail("the unique id's shared memory");
  struct flock lock = byte_of(rank);
  if (fcntl(file_.get(), F_OFD_SETLK, &lock) != 0) {
    throw Failure(ncclInvalidUsage, fmt::format("rank {} joined this unique id twice", rank));
  }
  const auto all = static_cast<std::size_t>(ranks);
  bytes_ = sizeof(Header) + all * (sizeof(RankSlot) + mailboxes_per_rank * mailbox_bytes);
  if (ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0) fail("shared memory");
  void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (memory == MAP_FAILED) fail("mapping shared memory");
  memory_ = static_cast<std::byte*>(memory);

  std::int32_t counted = 0;
  if (!header().ranks.compare_exchange_strong(counted, ranks) && counted != ranks) {
    munmap(memory_, bytes_);
    throw Failure(ncclInvalidArgument, fmt::format("rank {} says {} ranks, another rank of this unique id {}",
                                                   rank, ranks, counted));
  }
}

Segment::~Segment() {
  munmap(memory_, bytes_);
}

RankSlot& Segment::line(int rank) const {
  return reinterpret_cast<RankSlot*>(memory_ + sizeof(Header))[rank];
}

std::byte* Segment::mailbox(int rank, std::uint64_t chunk) const {
  const auto all = static_cast<std::size_t>(ranks_);
  const std::size_t index = static_cast<std::size_t>(rank) * mailboxes_per_rank + chunk % mailboxes_per_rank;
  return memory_ + sizeof(Header) + all * sizeof(RankSlot) + index * mailbox_bytes;
}

void Segment::unlink() const noexcept {
  shm_unlink(name_.c_str());
}

bool Segment::is_alive(int rank) const {
  struct flock lock = byte_of(rank);
  return fcntl(file_.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

std::uint32_t Segment::rings() const {
  return header().rings.load(std::memory_order_acquire);
}

void Segment::ring() const noexcept {
  header().rings.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &header().rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Segment::wait_for_ring(std::uint32_t seen, std::chrono::nanoseconds at_most) const {
  constexpr long second = 1'000'000'000;
  const timespec limit{.tv_sec = at_most.count() / second, .tv_nsec = at_most.count() % second};
  syscall(SYS_futex, &header().rings, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

}  // namespace simgpu::nccl
