#pragma once

#include <cstddef>

#include "comm/tcp/placement.h"
#include "kernels/base/dtype.h"

namespace lockstep::comm {

/// Bytes that the busiest node sends in an all-reduce of `bytes` of `dtype` between nodes (TcpExchange): the
/// partial sums for the other nodes' owners, and the sums of its own ranks' shards. It receives as many.
double sent_by_busiest_node(const Placement& placement, std::size_t bytes, DType dtype);

}  // namespace lockstep::comm
