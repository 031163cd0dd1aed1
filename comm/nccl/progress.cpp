#include "comm/nccl/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace lockstep::comm {
namespace {

constexpr std::string_view name = "NCCL all-reduce ";
constexpr std::string_view after = "after NCCL all-reduce ";

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  kernels::check(cudaStreamIsCapturing(stream, &status), "a stream's state");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

NcclProgress::NcclProgress() : entries_(remembered) {
  for (Entry& entry : entries_) entry.done = kernels::make_event_handle();
}

void NcclProgress::begins(ExchangeLabel label) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[begun_++ % remembered];
  entry.bucket = label.bucket;
  entry.has_event = false;
  entry.length = label.first_parameter.copy(entry.first_parameter.data(), entry.first_parameter.size());
}

void NcclProgress::is_enqueued(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[(begun_ - 1) % remembered];
  // In a graph the event would be the graph's, and nothing to ask about.
  entry.has_event = !is_captured(stream);
  has_captured_ |= !entry.has_event;
  if (entry.has_event) kernels::check(cudaEventRecord(entry.done.get(), stream), "recording an event");
  enqueued_ = begun_;
}

bool NcclProgress::has_captured() const {
  const std::lock_guard lock(mutex_);
  return has_captured_;
}

bool NcclProgress::look() {
  const std::lock_guard lock(mutex_);
  const std::uint64_t before = done_;
  if (enqueued_ > remembered) done_ = std::max(done_, enqueued_ - remembered);
  while (done_ < enqueued_) {
    const Entry& next = entries_[done_ % remembered];
    if (next.has_event && cudaEventQuery(next.done.get()) != cudaSuccess) break;
    ++done_;
  }
  return done_ > before;
}

std::uint64_t NcclProgress::shown() const {
  return std::min(done_ + 1, begun_);
}

std::string NcclProgress::name_of(std::uint64_t number) const {
  const Entry& entry = entries_[(number - 1) % remembered];
  std::string text = fmt::format("{}{}", name, number);
  if (entry.bucket < 0) return text;
  return text + fmt::format(" (bucket {}, {})", entry.bucket,
                            std::string_view(entry.first_parameter.data(), entry.length));
}

std::string NcclProgress::current() const {
  const std::lock_guard lock(mutex_);
  return begun_ == 0 ? std::string("the exchange") : name_of(shown());
}

std::string NcclProgress::newest() const {
  const std::lock_guard lock(mutex_);
  return name_of(begun_);
}

bool NcclProgress::is_ahead_of(std::string_view where) const {
  const std::lock_guard lock(mutex_);
  const std::size_t at = where.find(after);
  // It is in one, maybe ours; or it has begun none.
  if (at == std::string_view::npos) return begun_ > 0 && where.find(name) == std::string_view::npos;
  const std::string_view digits = where.substr(at + after.size());
  std::uint64_t theirs = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), theirs);
  return theirs < shown();
}

std::string NcclProgress::describe() const {
  const std::lock_guard lock(mutex_);
  if (begun_ == 0) return {};
  return fmt::format("{} {}", done_ < begun_ ? "in" : "after", name_of(shown()));
}

}  // namespace lockstep::comm
