#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/arena.h"
#include "comm/watchdog/failure_report.h"
#include "comm/world/world.h"
#include "kernels/base/dtype.h"
#include "kernels/stream.h"

namespace lockstep::kernels {
class Device;
}

namespace lockstep::comm {

/// How one collective over arenas went, in nanoseconds.
struct ExchangeTiming {
  std::int64_t skew_ns = 0;      ///< waiting for the last peer to arrive
  std::int64_t transfer_ns = 0;  ///< from then on, until the result is in place
  std::int64_t exposed_ns = 0;   ///< a stream waited for it: see `wait_for_exchange`

  void add(const ExchangeTiming& other) {
    skew_ns += other.skew_ns;
    transfer_ns += other.transfer_ns;
    exposed_ns += other.exposed_ns;
  }
};

/// What a collective exchanges, for reports, and whether a thread waits for it.
struct ExchangeLabel {
  int bucket = -1;        ///< of gradients
  std::string_view what;  ///< the bucket's first parameter, "fc1.weight"; else all: "statistics of bn1"
  /// Another thread computes meanwhile: prefer its core time to a slightly earlier end.
  bool behind_compute = false;

  /// " (bucket 0, fc1.weight)", " (statistics of bn1)", or nothing.
  std::string str() const {
    // Not by fmt, whose formats nvcc cannot check.
    if (bucket >= 0) return " (bucket " + std::to_string(bucket) + ", " + std::string(what) + ")";
    return what.empty() ? std::string() : " (" + std::string(what) + ")";
  }
};

/// A group of ranks that exchange. Every rank makes the same calls in the same order; each call ends by its
/// deadline (`CommOptions::timeout`) or with a CommError that names the ranks that were missing. Calls come
/// from one thread at a time. After an error the group is of no further use.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual const World& world() const = 0;
  virtual std::string_view backend() const = 0;

  /// Memory for the collectives below. Collective; the same type and number of elements on all ranks. The
  /// memory goes with the arena. An arena that outlives its group may be destroyed, but not used.
  virtual std::unique_ptr<Arena> allocate_arena(DType dtype, std::int64_t elements) = 0;

  /// Sums each range over all ranks, in place, in the stream's order, all of them in one exchange: a small
  /// range of another type costs no latency of its own. Ranges do not overlap. The same bits on every rank
  /// and in every run; on the host in one fixed binary tree over the ranks, so also for every placement and
  /// however elements are grouped in ranges. f32, f64, bf16 and f16; on the host bf16 and f16 are added in
  /// f32 and rounded once. May return before it is done, with a timing of zeros: see `wait`.
  virtual ExchangeTiming all_reduce(std::span<const ArenaRange> ranges, ExchangeLabel label,
                                    kernels::Stream& stream) = 0;
  ExchangeTiming all_reduce(const ArenaRange& range, ExchangeLabel label, kernels::Stream& stream) {
    return all_reduce(std::span(&range, 1), label, stream);
  }

  /// Sums the range over all ranks; this rank's shard of it (`shard_of` with this rank) then holds the sum,
  /// as all_reduce would leave it. Every other element of the range holds what this rank had put there; by
  /// mpi it may hold the sum.
  virtual ExchangeTiming reduce_scatter(const ArenaRange& range, ExchangeLabel label,
                                        kernels::Stream& stream) = 0;
  /// Copies each rank's shard of the range to all ranks; elements of any type. After a reduce_scatter the
  /// range has all_reduce's bits; by nccl where NCCL adds in the same order for both.
  virtual ExchangeTiming all_gather(const ArenaRange& range, ExchangeLabel label,
                                    kernels::Stream& stream) = 0;

  /// The same of which each rank's shard begins with the number of its bytes (i64, 8 at least) that are in
  /// use: what lies behind them may be left out, and is anything then.
  virtual ExchangeTiming all_gather_filled(const ArenaRange& range, ExchangeLabel label,
                                           kernels::Stream& stream) {
    return all_gather(range, label, stream);
  }

  /// Whether collectives over arenas only put their work on the stream, and the result is there when the
  /// stream has come so far.
  virtual bool stream_ordered() const { return false; }
  /// Whether the ranks are on several nodes: an exchange takes a network's time.
  virtual bool crosses_nodes() const { return false; }
  /// Why a captured graph may not hold collectives over arenas; empty if it may.
  virtual std::string obstacle_to_graphs() const {
    return stream_ordered() || world().size == 1 ? "" : "with several ranks they need --backend nccl";
  }
  /// Makes `stream`, which computes, wait for `event`, which is behind exchanges.
  virtual void wait_for_exchange(kernels::Stream& stream, kernels::Event& event) { stream.wait(event); }
  /// Whether `ExchangeTiming` tells waiting for peers from the transfer; else all of it is transfer.
  virtual bool tells_skew() const { return true; }
  /// Of what is done on streams since the last call; nothing where collectives tell their own.
  virtual ExchangeTiming take_timing() { return {}; }
  /// Waits until `event` is reached, with the deadline and errors of a collective: sums may precede it, and
  /// on a GPU these never end when a peer is lost.
  virtual void wait(kernels::Event& event) { event.synchronize(); }

  /// For set-up, evaluation and agreement; host memory of any kind.
  virtual void all_reduce_sum(std::span<double> values) = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  /// Each rank's text, by rank. Lengths may differ.
  virtual std::vector<std::string> all_gather(std::string_view mine) = 0;
  virtual void barrier() = 0;

  /// Ends every wait of every rank with `reason`. From any thread; never throws.
  virtual void abort(std::string_view reason) noexcept = 0;
  /// True once a peer was lost, a wait timed out or a rank aborted; by mpi of this rank alone. From any
  /// thread.
  virtual bool failed() const noexcept { return false; }

  virtual void watch(WatchHooks) {}
  /// After a CommError: the first cause and where each rank was. Nothing in a group of one.
  virtual std::optional<FailureReport> failure_report() { return std::nullopt; }
};

}  // namespace lockstep::comm
