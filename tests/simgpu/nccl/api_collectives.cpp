// Collectives and groups.
#include <fmt/format.h>
#include <nccl.h>

#include "tests/simgpu/nccl/arithmetic.h"
#include "tests/simgpu/nccl/group.h"
#include "tests/simgpu/nccl/library.h"
#include "tests/simgpu/operation.h"

using namespace simgpu::nccl;
using simgpu::report_mistake;

namespace {

void require_valid(const Call& call, int ranks) {
  require(type_bytes(call.type) != 0, ncclInvalidArgument,
          fmt::format("{} is no data type", static_cast<int>(call.type)));
  require(call.root >= 0 && call.root < ranks, ncclInvalidArgument,
          fmt::format("root {} of {} ranks", call.root, ranks));
  if (!is_reduction(call.kind)) return;
  require(call.op == ncclSum && can_sum(call.type), ncclInvalidArgument,
          "the simulator has sums of float32, float64, bfloat16 and float16 only");
}

void require_device_memory(const Call& call, const char* what, const void* first, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(first);
  if (simgpu::is_device_address(begin) && simgpu::is_device_address(begin + bytes - 1)) return;
  report_mistake("NCCL buffer", fmt::format("{}: the {} buffer of {} bytes is not all device memory",
                                            describe(call), what, bytes));
}

/// In place or apart: NCCL's kernels read and write at once.
void require_no_overlap(const Issued& issued) {
  const Call& call = issued.call;
  const int ranks = issued.rank->ranks();
  const auto own = static_cast<std::size_t>(issued.rank->rank());
  const auto* const send = static_cast<const std::byte*>(issued.send);
  const auto* const receive = static_cast<const std::byte*>(issued.receive);
  const std::size_t block = call.count * type_bytes(call.type);
  const std::byte* in_place = receive;
  if (call.kind == Call::Kind::all_gather) in_place = receive + own * block;
  const std::byte* const sent = call.kind == Call::Kind::reduce_scatter ? send + own * block : send;
  if (sent == in_place) return;
  if (send + send_bytes(call, ranks) <= receive ||
      receive + receive_bytes(call, issued.rank->rank(), ranks) <= send)
    return;
  report_mistake("NCCL buffer",
                 fmt::format("{} on rank {}: the buffers overlap, and not as an in-place call's",
                             describe(call), issued.rank->rank()));
}

void require_only_rank_here(const Communicator& rank, const Call& call) {
  if (!Library::instance().has_other_rank_of(rank)) return;
  report_mistake("NCCL group", fmt::format("{} on rank {}: this process is another rank of the communicator "
                                           "too; call both between ncclGroupStart and ncclGroupEnd",
                                           describe(call), rank.rank()));
}

ncclResult_t issue(const Call& call, const void* send, void* receive, ncclComm_t comm, cudaStream_t stream) {
  simgpu::refuse_error_left_behind(function_name(call.kind));
  Group& group = Group::of_this_thread();
  const ncclResult_t result = answer([&] {
    Issued issued{Library::instance().find(comm), call, send, receive, stream};
    const CommunicatorPtr rank = issued.rank;
    const Stay stay(*rank, function_name(call.kind));
    require_ready(*rank);
    require(rank->life() == Communicator::Life::in_use, ncclInvalidUsage, "the communicator is finalized");
    require_valid(call, rank->ranks());
    if (call.count == 0) return ncclSuccess;
    const bool sends = call.kind != Call::Kind::broadcast || rank->rank() == call.root;
    if (!sends) issued.send = receive;
    const bool receives = receive_bytes(call, rank->rank(), rank->ranks()) > 0;
    if (!receives) issued.receive = const_cast<void*>(send);  // NCCL ignores what it is
    require_device_memory(call, "send", issued.send, send_bytes(call, rank->ranks()));
    if (receives) {
      require_device_memory(call, "receive", receive, receive_bytes(call, rank->rank(), rank->ranks()));
    }
    require_no_overlap(issued);
    if (group.is_open()) {
      group.add(std::move(issued));
      return ncclSuccess;
    }
    require_only_rank_here(*rank, call);
    return start(rank, {std::move(issued)});
  });
  if (result != ncclSuccess && result != ncclInProgress && group.is_open()) group.refuse(result);
  return result;
}

}  // namespace

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return issue({.kind = Call::Kind::all_reduce, .type = type, .op = op, .count = count}, send, receive, comm,
               stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return issue({.kind = Call::Kind::reduce_scatter, .type = type, .op = op, .count = count}, send, receive,
               comm, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return issue({.kind = Call::Kind::all_gather, .type = type, .count = count}, send, receive, comm, stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return issue({.kind = Call::Kind::reduce, .type = type, .op = op, .root = root, .count = count}, send,
               receive, comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return issue({.kind = Call::Kind::broadcast, .type = type, .root = root, .count = count}, send, receive,
               comm, stream);
}

ncclResult_t ncclGroupStart() {
  Group::of_this_thread().open();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  return answer([] { return Group::of_this_thread().close(); });
}
