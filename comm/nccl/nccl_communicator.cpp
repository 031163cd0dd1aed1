#include "comm/nccl/nccl_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <ranges>
#include <stdexcept>
#include <utility>

#include "comm/polling.h"
#include "kernels/base/error.h"
#include "kernels/cuda/stream.h"
#include "kernels/device.h"

namespace lockstep::comm {
namespace {

/// The end of a run that went well is not held up long by a peer that hangs.
constexpr Seconds longest_goodbye{10};

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
    case DType::u16:  // only moved: sums of it are refused
      return ncclFloat16;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    case DType::u8:
      return ncclUint8;
  }
  throw std::logic_error("NCCL has no such type");
}

/// Makes `call` for each of `all` until one is refused. Between ncclGroupStart and ncclGroupEnd no call waits
/// for another.
template <class Items, class Call>
ncclResult_t first_error(const Items& all, Call call) {
  for (const auto& item : all) {
    const ncclResult_t result = call(item);
    if (result != ncclSuccess && result != ncclInProgress) return result;
  }
  return ncclSuccess;
}

}  // namespace

NcclCommunicator::NcclCommunicator(std::unique_ptr<Communicator> inner_group, kernels::Device& device,
                                   Seconds timeout)
    : DecoratedCommunicator(std::move(inner_group)),
      nccl_(nccl_functions()),
      timeout_(timeout),
      own_stream_(device.make_stream()) {
  kernels::handle_of(*own_stream_);  // makes the device current, for NCCL too
  progress_ = std::make_shared<NcclProgress>();
  watch({});
  const auto hosts = inner().all_gather(host_to_nccl());
  spans_hosts_ = std::ranges::count(hosts, hosts.front()) != std::ssize(hosts);
  try {
    const ncclUniqueId id = agree_on_id();
    group_.emplace(nccl_, id, world().rank, world().size, [this] { return inner().failed(); });
    progress_->set_in_rendezvous(true);
    group_->rendezvous(deadline());
    progress_->set_in_rendezvous(false);
    arenas_ = std::make_shared<NcclArenas>(this, nccl_, *group_, [this] { return failed(); });
  } catch (const CommError& error) {
    fail(error.what());
  } catch (const DeviceError& error) {
    fail_here(error.what());
  }
}

ncclUniqueId NcclCommunicator::agree_on_id() {
  ncclUniqueId id{};
  if (world().rank == 0) {
    if (const ncclResult_t result = nccl_.get_unique_id(&id); result != ncclSuccess) {
      throw DeviceError(fmt::format("NCCL's unique id: {}; NCCL_DEBUG=WARN in the environment tells more",
                                    nccl_.error_string(result)));
    }
  }
  inner().broadcast(std::as_writable_bytes(std::span(id.internal)), 0);
  return id;
}

NcclCommunicator::~NcclCommunicator() {
  if (std::uncaught_exceptions() == 0 && !failed()) close();
  end_group();
  // Of a group that was not closed: what is on the GPU, kernels of the step or of NCCL that end by its abort,
  // may still use them.
  if (arenas_) arenas_->abandon_all();
}

void NcclCommunicator::close() {
  try {
    const Deadline goodbye = Deadline::in(std::min(timeout_, longest_goodbye));
    arenas_->deregister_all(goodbye);
    group_->close(goodbye);
    arenas_->free_all();
  } catch (const Error&) {
    // A peer or the GPU is gone, and the run is over.
  }
}

std::unique_ptr<Arena> NcclCommunicator::allocate_arena(DType dtype, std::int64_t elements) {
  const cudaStream_t stream = kernels::handle_of(*own_stream_);
  const bool able =
      nccl_.register_window != nullptr && nccl_.version >= oldest_choosing_windows && !spans_hosts_;
  const auto all = inner().all_gather(able ? "window" : "");
  const bool as_window = std::ranges::find(all, "") == all.end();
  try {
    return arenas_->allocate(dtype, elements, as_window, stream, deadline());
  } catch (const CommError& error) {
    fail(error.what());
  } catch (const DeviceError& error) {
    fail_here(error.what());
  }
}

std::string NcclCommunicator::obstacle_to_graphs() const {
  if (!spans_hosts_ || nccl_.version >= oldest_replaying_between_hosts) return {};
  return fmt::format(
      "NCCL {} may hang in graphs with collectives between hosts, {} is the first that does not",
      version_text(nccl_.version), version_text(oldest_replaying_between_hosts));
}

template <class Calls>
ExchangeTiming NcclCommunicator::exchange(std::string_view kind, ExchangeLabel label, kernels::Stream& stream,
                                          Calls calls) {
  const cudaStream_t handle = kernels::handle_of(stream);
  progress_->begins(kind, label, handle);
  try {
    group_->make("enqueueing", deadline(), [&](ncclComm_t communicator) {
      nccl_.group_start();
      const ncclResult_t refused = calls(communicator, handle);
      const ncclResult_t result = nccl_.group_end();
      return refused == ncclSuccess || refused == ncclInProgress ? result : refused;
    });
  } catch (const CommError& error) {
    fail(fmt::format("NCCL {}{}: {}", kind, label.str(), error.what()));
  } catch (const DeviceError& error) {
    fail_here(fmt::format("NCCL {}{}: {}", kind, label.str(), error.what()));
  }
  progress_->ends(handle);
  return {};
}

ExchangeTiming NcclCommunicator::all_reduce(std::span<const ArenaRange> ranges, ExchangeLabel label,
                                            kernels::Stream& stream) {
  check_summable_ranges(ranges, this, "all_reduce");
  return exchange("all-reduce", label, stream, [&](ncclComm_t communicator, cudaStream_t handle) {
    return first_error(ranges, [&](const ArenaRange& range) {
      return nccl_.all_reduce(range.data(), range.data(), static_cast<std::size_t>(range.count),
                              nccl_type(range.dtype()), ncclSum, communicator, handle);
    });
  });
}

template <class Call>
ncclResult_t NcclCommunicator::for_each_shard(const ArenaRange& range, Call call) const {
  return first_error(std::views::iota(0, world().size), [&](int rank) {
    const ArenaRange shard = shard_of(range, rank, world().size);
    return shard.count == 0 ? ncclSuccess : call(shard, rank);
  });
}

ExchangeTiming NcclCommunicator::reduce_scatter(const ArenaRange& range, ExchangeLabel label,
                                                kernels::Stream& stream) {
  check_summable_ranges(std::span(&range, 1), this, "reduce_scatter");
  const ncclDataType_t type = nccl_type(range.dtype());
  return exchange("reduce-scatter", label, stream, [&](ncclComm_t communicator, cudaStream_t handle) {
    if (has_equal_shards(range)) {
      const ArenaRange own = shard_of(range, world().rank, world().size);
      return nccl_.reduce_scatter(range.data(), own.data(), static_cast<std::size_t>(own.count), type,
                                  ncclSum, communicator, handle);
    }
    return for_each_shard(range, [&](const ArenaRange& shard, int rank) {
      return nccl_.reduce(shard.data(), shard.data(), static_cast<std::size_t>(shard.count), type, ncclSum,
                          rank, communicator, handle);
    });
  });
}

ExchangeTiming NcclCommunicator::all_gather(const ArenaRange& range, ExchangeLabel label,
                                            kernels::Stream& stream) {
  check_ranges(std::span(&range, 1), this, "all_gather");
  const ncclDataType_t type = nccl_type(range.dtype());
  return exchange("all-gather", label, stream, [&](ncclComm_t communicator, cudaStream_t handle) {
    if (has_equal_shards(range)) {
      const ArenaRange own = shard_of(range, world().rank, world().size);
      return nccl_.all_gather(own.data(), range.data(), static_cast<std::size_t>(own.count), type,
                              communicator, handle);
    }
    return for_each_shard(range, [&](const ArenaRange& shard, int rank) {
      return nccl_.broadcast(shard.data(), shard.data(), static_cast<std::size_t>(shard.count), type, rank,
                             communicator, handle);
    });
  });
}

void NcclCommunicator::wait_for_exchange(kernels::Stream& stream, kernels::Event& event) {
  const cudaStream_t handle = kernels::handle_of(stream);
  progress_->begins_to_wait(handle);
  stream.wait(event);
  progress_->ends_waiting(handle);
}

void NcclCommunicator::wait(kernels::Event& event) {
  Deadline end = deadline();
  for (Backoff backoff;; backoff.pause()) {
    const bool reached = event.reached();
    if (progress_->look()) end = deadline();
    if (reached) return;
    if (const auto reason = problem(end)) fail(*reason);
  }
}

std::optional<std::string> NcclCommunicator::problem(const Deadline& end) {
  if (failed()) return "the group has failed";
  if (const std::string message = group_->error(); !message.empty()) {
    return fmt::format("{}: {}", progress_->current(), message);
  }
  if (end.passed()) {
    return fmt::format("{} was not done within {:g} s", progress_->current(), timeout_.count());
  }
  return std::nullopt;
}

void NcclCommunicator::watch(WatchHooks hooks) {
  hooks.position = [theirs = std::move(hooks.position), progress = progress_] {
    std::string text = theirs ? theirs() : std::string();
    const std::string own = progress->describe();
    if (!text.empty() && !own.empty()) text += "; ";
    return text + own;
  };
  inner().watch(std::move(hooks));
}

void NcclCommunicator::fail(const std::string& reason) {
  leave(reason);
  throw CommError(first_cause(reason));
}

/// By this rank's GPU, say. A peer that was lost before may be what broke it.
void NcclCommunicator::fail_here(const std::string& reason) {
  if (failed()) fail(reason);
  leave(reason);
  throw DeviceError(reason);
}

void NcclCommunicator::leave(const std::string& reason) {
  progress_->abandon();
  inner().abort(reason);
  end_group();
}

/// An abort waits without end for the graphs that hold collectives, and those are not ours to destroy. With
/// such the process has to leave with its GPU in the middle of a step, as WatchHooks::overdue sees to.
void NcclCommunicator::end_group() noexcept {
  if (!group_) return;
  if (!progress_->has_captured()) return group_->abort();
  group_->abandon();
}

/// The cause that the group agreed on, the ranks that are behind, and where this rank was.
std::string NcclCommunicator::first_cause(const std::string& reason) {
  const auto report = failure_report();
  if (!report) return reason;
  std::string text = report->cause;
  for (const RankStatus& status : report->ranks) {
    if (!status.last || !progress_->is_ahead_of(status.where)) continue;
    text += fmt::format("; rank {} has not begun {}", status.rank, progress_->current());
  }
  const std::string own = progress_->describe();
  return text +
         fmt::format("; rank {} was {}", world().rank, own.empty() ? "before its first exchange" : own);
}

}  // namespace lockstep::comm
