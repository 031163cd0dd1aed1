#include "comm/nccl/nccl_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/cuda/stream.h"

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
      return ncclFloat16;
    default:
      throw std::invalid_argument("all_reduce: floating-point numbers only");
  }
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
  try {
    const ncclUniqueId id = agree_on_id();
    group_.emplace(nccl_, id, world().rank, world().size, [this] { return inner().failed(); });
    progress_->meets(true);
    group_->meet(deadline());
    progress_->meets(false);
  } catch (const CommError& error) {
    fail(error.what());
  }
}

ncclUniqueId NcclCommunicator::agree_on_id() {
  ncclUniqueId id{};
  if (world().rank == 0) {
    if (const ncclResult_t result = nccl_.get_unique_id(&id); result != ncclSuccess) {
      throw CommError(fmt::format("NCCL's unique id: {}", nccl_.error_string(result)));
    }
  }
  inner().broadcast(std::as_writable_bytes(std::span(id.internal)), 0);
  return id;
}

NcclCommunicator::~NcclCommunicator() {
  if (std::uncaught_exceptions() == 0 && !failed()) close();
  // Before the arena is freed, which waits for what is on the GPU.
  end_group();
}

void NcclCommunicator::close() {
  try {
    const Deadline goodbye = Deadline::in(std::min(timeout_, longest_goodbye));
    if (arena_) arena_->deregister(goodbye);
    group_->close(goodbye);
    arena_.reset();
  } catch (const CommError&) {
    // A peer is gone, and the run is over.
  }
}

std::span<std::byte> NcclCommunicator::allocate_arena(std::size_t bytes) {
  const cudaStream_t stream = kernels::handle_of(*own_stream_);
  const auto all = inner().all_gather(nccl_.register_window != nullptr ? "window" : "");
  const bool as_window = std::ranges::find(all, "") == all.end();
  try {
    if (arena_) arena_->deregister(deadline());
    arena_.emplace(nccl_, *group_, bytes, as_window, stream, deadline());
  } catch (const CommError& error) {
    fail(error.what());
  }
  return arena_->bytes();
}

ExchangeTiming NcclCommunicator::all_reduce(std::size_t offset, std::size_t count, DType dtype,
                                            ExchangeLabel label, kernels::Stream& stream) {
  if (!arena_ || offset + count * size_of(dtype) > arena_->bytes().size()) {
    throw std::invalid_argument("all_reduce: the range is not in the arena");
  }
  std::byte* const values = arena_->bytes().data() + offset;
  const cudaStream_t handle = kernels::handle_of(stream);
  progress_->begins(label, handle);
  try {
    group_->make("enqueueing", deadline(), [&](ncclComm_t communicator) {
      return nccl_.all_reduce(values, values, count, nccl_type(dtype), ncclSum, communicator, handle);
    });
  } catch (const CommError& error) {
    fail(fmt::format("NCCL all-reduce of bucket {} ({}): {}", label.bucket, label.first_parameter,
                     error.what()));
  }
  progress_->ends(handle);
  return {};
}

void NcclCommunicator::wait(kernels::Event& event) {
  Deadline end = deadline();
  for (Pause pause;; pause.take()) {
    const bool reached = event.reached();
    if (progress_->look()) end = deadline();
    if (reached) return;
    if (const auto reason = problem(end)) fail(*reason);
  }
}

std::optional<std::string> NcclCommunicator::problem(const Deadline& end) {
  if (failed()) return "the group has failed";
  if (const std::string words = group_->error(); !words.empty()) {
    return fmt::format("{}: {}", progress_->current(), words);
  }
  if (end.passed()) {
    return fmt::format("{} was not done within {:g} s", progress_->current(), timeout_.count());
  }
  return std::nullopt;
}

void NcclCommunicator::watch(WatchHooks hooks) {
  hooks.whereabouts = [theirs = std::move(hooks.whereabouts), progress = progress_] {
    std::string text = theirs ? theirs() : std::string();
    const std::string own = progress->describe();
    if (!text.empty() && !own.empty()) text += "; ";
    return text + own;
  };
  inner().watch(std::move(hooks));
}

void NcclCommunicator::fail(const std::string& reason) {
  progress_->abandon();
  inner().abort(reason);
  end_group();
  throw CommError(first_cause(reason));
}

/// An abort waits without end for the graphs that hold collectives, and those are not ours to destroy. With
/// such the process has to leave with its GPU in the middle of a step, as WatchHooks::overdue sees to.
void NcclCommunicator::end_group() noexcept {
  if (!group_) return;
  if (!progress_->has_captured()) return group_->abort();
  group_->abandon();
  if (arena_) arena_->abandon();
}

/// What the group agreed on, who is behind, and where this rank was.
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
         fmt::format("; rank {} was {}", world().rank, own.empty() ? "before its first all-reduce" : own);
}

}  // namespace lockstep::comm
