#include "tests/simgpu/nccl/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/simgpu/nccl/collective.h"
#include "tests/simgpu/operation.h"

namespace simgpu::nccl {
namespace {

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess && status == cudaStreamCaptureStatusActive;
}

void enqueue_one(const Issued& issued) {
  Call call = issued.call;
  call.captured = is_captured(issued.stream);
  const int ranks = issued.rank->ranks();
  const auto* const send = static_cast<const std::byte*>(issued.send);
  auto* const receive = static_cast<std::byte*>(issued.receive);
  const auto collective =
      std::make_shared<Collective>(issued.rank, call, host_view(send), host_view(receive));
  const cudaError_t error = simgpu::enqueue(
      issued.stream,
      {.kind = Operation::Kind::collective,
       .name = function_name(call.kind),
       .accesses = {{send, send + send_bytes(call, ranks), false},
                    {receive, receive + receive_bytes(call, issued.rank->rank(), ranks), true}},
       .run = [collective] { return collective->step(); }});
  require(error == cudaSuccess, ncclUnhandledCudaError,
          fmt::format("enqueueing {}: {}", describe(call), cudaGetErrorString(error)));
}

}  // namespace

Group& Group::of_this_thread() {
  thread_local Group group;
  return group;
}

void Group::refuse(ncclResult_t result) {
  if (refused_ == ncclSuccess) refused_ = result;
}

ncclResult_t Group::close() {
  require(depth_ > 0, ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--depth_ > 0) return ncclSuccess;
  Group whole = std::exchange(*this, {});
  if (whole.refused_ != ncclSuccess) return whole.refused_;
  require(whole.joining_.empty() || whole.collectives_.empty(), ncclInvalidUsage,
          "a group of calls starts communicators or collectives, not both");
  return whole.start();
}

ncclResult_t Group::start() {
  ncclResult_t result = ncclSuccess;
  const auto note = [&](ncclResult_t one) {
    if (result == ncclSuccess || result == ncclInProgress) result = one == ncclSuccess ? result : one;
  };
  for (const CommunicatorPtr& rank : joining_) note(rank->blocking() ? rank->wait() : ncclInProgress);
  while (!collectives_.empty()) {
    const CommunicatorPtr rank = collectives_.front().rank;
    const auto others = std::ranges::stable_partition(
        collectives_, [&](const Issued& issued) { return issued.rank == rank; });
    std::vector<Issued> own(collectives_.begin(), others.begin());
    collectives_.erase(collectives_.begin(), others.begin());
    note(nccl::start(rank, std::move(own)));
  }
  return result;
}

ncclResult_t start(const CommunicatorPtr& rank, std::vector<Issued> collectives) {
  return rank->launch([collectives = std::move(collectives)] {
    for (const Issued& issued : collectives) enqueue_one(issued);
  });
}

}  // namespace simgpu::nccl
