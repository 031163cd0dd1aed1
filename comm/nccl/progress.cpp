#include "comm/nccl/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/base/number.h"

namespace lockstep::comm {
namespace {

constexpr std::string_view name = "NCCL ";
constexpr std::string_view after = "after NCCL ";
constexpr std::string_view rendezvous = "NCCL's rendezvous";

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  kernels::check(cudaStreamIsCapturing(stream, &status), "a stream's state");
  return status != cudaStreamCaptureStatusNone;
}

/// From `begin` to `end`, of all that have ended behind `timed`, as far as their times are kept.
std::int64_t time_between(const StreamCounter& begin, const StreamCounter& end, std::uint32_t& timed) {
  const std::uint32_t ended = end.value().number;
  constexpr std::uint32_t certain = StreamCounter::kept_times / 2;  // others may begin meanwhile
  if (ended - timed > certain) timed = ended - certain;
  std::int64_t sum = 0;
  while (timed != ended) {
    ++timed;
    sum += std::max<std::int64_t>(end.time_of(timed) - begin.time_of(timed), 0);
  }
  return sum;
}

}  // namespace

void NcclProgress::begins(std::string_view kind, ExchangeLabel label, cudaStream_t stream) {
  {
    const std::lock_guard lock(mutex_);
    has_captured_ |= is_captured(stream);
    const Name wanted{std::string(kind), label.str()};
    const auto found = std::ranges::find(names_, wanted);
    current_ = static_cast<std::uint32_t>(found - names_.begin());
    if (found == names_.end()) names_.push_back(wanted);
  }
  begun_.count(current_, stream);
}

void NcclProgress::ends(cudaStream_t stream) {
  done_.count(current_, stream);
}

ExchangeTiming NcclProgress::take_timing() {
  return {.transfer_ns = time_between(begun_, done_, timed_exchanges_),
          .exposed_ns = time_between(waiting_, waited_, timed_waits_)};
}

bool NcclProgress::has_captured() const {
  const std::lock_guard lock(mutex_);
  return has_captured_;
}

bool NcclProgress::look() {
  const std::uint32_t done = done_.value().number;
  return std::exchange(done_before_, done) != done;
}

std::string NcclProgress::name_of(StreamCounter::Value at) const {
  const std::lock_guard lock(mutex_);
  const Name& one = names_[at.what];
  return fmt::format("{}{} {}{}", name, one.kind, at.number, one.label);
}

std::string NcclProgress::current() const {
  if (in_rendezvous_) return std::string(rendezvous);
  const StreamCounter::Value begun = begun_.value();
  return begun.number == 0 ? std::string("the exchange") : name_of(begun);
}

bool NcclProgress::is_ahead_of(std::string_view where) const {
  if (in_rendezvous_) return where.find(rendezvous) == std::string_view::npos;
  const std::uint32_t begun = begun_.value().number;
  const std::size_t at = where.find(after);
  // It is in one, maybe ours; or it has begun none.
  if (at == std::string_view::npos) return begun > 0 && where.find(name) == std::string_view::npos;
  return leading_number<std::uint32_t>(where.substr(where.find(' ', at + after.size()) + 1)) < begun;
}

void NcclProgress::abandon() noexcept {
  for (StreamCounter* counter : {&begun_, &done_, &waiting_, &waited_}) counter->abandon();
}

std::string NcclProgress::describe() const {
  if (in_rendezvous_) return fmt::format("in {}", rendezvous);
  const std::uint32_t done = done_.value().number;
  const StreamCounter::Value begun = begun_.value();
  if (begun.number == 0) return {};
  return fmt::format("{} {}", done < begun.number ? "in" : "after", name_of(begun));
}

}  // namespace lockstep::comm
