#include "tests/simgpu/nccl/call.h"

#include <fmt/format.h>

namespace simgpu::nccl {
namespace {

const char* name_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return "int8";
    case ncclUint8:
      return "uint8";
    case ncclInt32:
      return "int32";
    case ncclUint32:
      return "uint32";
    case ncclInt64:
      return "int64";
    case ncclUint64:
      return "uint64";
    case ncclFloat16:
      return "float16";
    case ncclFloat32:
      return "float32";
    case ncclFloat64:
      return "float64";
    case ncclBfloat16:
      return "bfloat16";
    default:
      return "of an 8-bit float type";
  }
}

}  // namespace

std::size_t type_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

std::size_t send_bytes(const Call& call, int ranks) {
  const std::size_t blocks = call.kind == Call::Kind::reduce_scatter ? static_cast<std::size_t>(ranks) : 1;
  return call.count * blocks * type_bytes(call.type);
}

std::size_t receive_bytes(const Call& call, int rank, int ranks) {
  if (call.kind == Call::Kind::reduce && rank != call.root) return 0;
  const std::size_t blocks = call.kind == Call::Kind::all_gather ? static_cast<std::size_t>(ranks) : 1;
  return call.count * blocks * type_bytes(call.type);
}

const char* function_name(Call::Kind kind) {
  switch (kind) {
    case Call::Kind::all_reduce:
      return "ncclAllReduce";
    case Call::Kind::reduce_scatter:
      return "ncclReduceScatter";
    case Call::Kind::all_gather:
      return "ncclAllGather";
    case Call::Kind::reduce:
      return "ncclReduce";
    case Call::Kind::broadcast:
      return "ncclBroadcast";
  }
  return "?";
}

std::string describe(const Call& call) {
  std::string text = fmt::format("{} of {} {}", function_name(call.kind), call.count, name_of(call.type));
  if (call.kind == Call::Kind::reduce) text += fmt::format(" to rank {}", call.root);
  if (call.kind == Call::Kind::broadcast) text += fmt::format(" from rank {}", call.root);
  if (call.captured) text += " in a graph";
  return text;
}

}  // namespace simgpu::nccl
