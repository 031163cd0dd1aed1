#include "comm/nccl/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace lockstep::comm {
namespace {

constexpr std::string_view name = "NCCL all-reduce ";
constexpr std::string_view after = "after NCCL all-reduce ";
constexpr std::string_view meeting = "NCCL's meeting";

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  kernels::check(cudaStreamIsCapturing(stream, &status), "a stream's state");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

void NcclProgress::begins(ExchangeLabel label, cudaStream_t stream) {
  {
    const std::lock_guard lock(mutex_);
    has_captured_ |= is_captured(stream);
    if (std::ranges::find(buckets_, label.bucket, &Bucket::index) == buckets_.end()) {
      buckets_.push_back({label.bucket, std::string(label.first_parameter)});
    }
  }
  begun_.count(stream);
}

void NcclProgress::ends(cudaStream_t stream) {
  done_.count(stream);
}

bool NcclProgress::has_captured() const {
  const std::lock_guard lock(mutex_);
  return has_captured_;
}

bool NcclProgress::look() {
  const std::uint32_t done = done_.value();
  return std::exchange(done_before_, done) != done;
}

std::string NcclProgress::name_of(std::uint32_t number) const {
  const std::lock_guard lock(mutex_);
  const Bucket& bucket = buckets_[(number - 1) % buckets_.size()];
  std::string text = fmt::format("{}{}", name, number);
  if (bucket.index >= 0) text += fmt::format(" (bucket {}, {})", bucket.index, bucket.first_parameter);
  return text;
}

std::string NcclProgress::current() const {
  if (meets_) return std::string(meeting);
  const std::uint32_t begun = begun_.value();
  return begun == 0 ? std::string("the exchange") : name_of(begun);
}

bool NcclProgress::is_ahead_of(std::string_view where) const {
  if (meets_) return where.find(meeting) == std::string_view::npos;
  const std::uint32_t begun = begun_.value();
  const std::size_t at = where.find(after);
  // It is in one, maybe ours; or it has begun none.
  if (at == std::string_view::npos) return begun > 0 && where.find(name) == std::string_view::npos;
  const std::string_view digits = where.substr(at + after.size());
  std::uint32_t theirs = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), theirs);
  return theirs < begun;
}

void NcclProgress::abandon() noexcept {
  begun_.abandon();
  done_.abandon();
}

std::string NcclProgress::describe() const {
  if (meets_) return fmt::format("in {}", meeting);
  const std::uint32_t done = done_.value();
  const std::uint32_t begun = begun_.value();
  if (begun == 0) return {};
  return fmt::format("{} {}", done < begun ? "in" : "after", name_of(begun));
}

}  // namespace lockstep::comm
