#include "comm/mpi/mpi_communicator.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <stdexcept>

#include "comm/mpi/library.h"
#include "comm/mpi/session.h"
#include "kernels/base/division.h"
#include "kernels/base/error.h"
#include "kernels/base/half.h"
#include "kernels/base/log.h"

namespace lockstep::comm {
namespace {

/// Open MPI's collectives are fastest on pieces that stay in the cache, two of them under way (measured: 25
/// MiB in pieces of 2 MiB take half of the time of one call).
constexpr std::size_t piece_bytes = std::size_t{2} << 20;
constexpr std::size_t pieces_under_way = 2;

/// MPI counts in int.
constexpr std::size_t most_bytes = std::size_t{1} << 30;

ExchangeTiming time_since(Clock::time_point start) {
  return {.transfer_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count()};
}

/// By ssh mpirun hands variables to the ranks of its own host alone.
constexpr const char* hint_at_other_way =
    ", or that has MASTER_ADDR and a secret of its own, and so does not meet by MPI: give both to all ranks "
    "(mpirun -x MASTER_ADDR -x LOCKSTEP_TOKEN), or to none";

class Broadcaster final : public MpiRendezvous {
 public:
  Broadcaster(const World& world, Seconds timeout) : communicator_(world, {.timeout = timeout}) {}

  std::string broadcast(std::string_view from_rank_0) override {
    return communicator_.all_gather(communicator_.world().rank == 0 ? from_rank_0 : "").front();
  }

 private:
  MpiCommunicator communicator_;
};

}  // namespace

MpiCommunicator::MpiCommunicator(const World& world, const CommOptions& options)
    : world_(world), timeout_(options.timeout), session_(MpiSession::open(world, options.timeout)) {}

MpiCall MpiCommunicator::begin(std::string_view kind, ExchangeLabel label) {
  return session_->begin(kind, label, timeout_);
}

std::unique_ptr<Arena> MpiCommunicator::allocate_arena(DType dtype, std::int64_t elements) {
  std::erase_if(memory_, [](const HeapArena::Memory& memory) { return memory.use_count() == 1; });
  memory_.push_back(HeapArena::allocate(dtype, elements));
  return std::make_unique<HeapArena>(this, ++arenas_, dtype, elements, memory_.back());
}

ExchangeTiming MpiCommunicator::all_reduce(std::span<const ArenaRange> ranges, ExchangeLabel label,
                                           kernels::Stream&) {
  check_summable_ranges(ranges, this, "all_reduce");
  const auto start = Clock::now();
  const MpiCall call = begin("all-reduce", label);
  for (const ArenaRange& range : ranges) sum(range, call);
  return time_since(start);
}

ExchangeTiming MpiCommunicator::reduce_scatter(const ArenaRange& range, ExchangeLabel label,
                                               kernels::Stream&) {
  check_summable_ranges(std::span(&range, 1), this, "reduce_scatter");
  const auto start = Clock::now();
  sum(range, begin("reduce-scatter", label));
  return time_since(start);
}

ExchangeTiming MpiCommunicator::all_gather(const ArenaRange& range, ExchangeLabel label, kernels::Stream&) {
  check_ranges(std::span(&range, 1), this, "all_gather");
  const auto start = Clock::now();
  const MpiCall call = begin("all-gather", label);
  for (int rank = 0; rank < world_.size; ++rank) {
    const ArenaRange shard = shard_of(range, rank, world_.size);
    broadcast({shard.data(), shard.bytes()}, rank, call);
  }
  return time_since(start);
}

void MpiCommunicator::sum(const ArenaRange& range, const MpiCall& call) {
  const auto count = static_cast<std::size_t>(range.count);
  switch (range.dtype()) {
    case DType::bf16:
      return sum_halves(reinterpret_cast<BFloat16*>(range.data()), count, call);
    case DType::f16:
      return sum_halves(reinterpret_cast<Float16*>(range.data()), count, call);
    case DType::f64:
      return sum(range.data(), count, MpiNumber::f64, call);
    default:
      return sum(range.data(), count, MpiNumber::f32, call);
  }
}

void MpiCommunicator::sum(void* values, std::size_t count, MpiNumber type, const MpiCall& call) {
  const std::size_t size = type == MpiNumber::f32 ? sizeof(float) : sizeof(double);
  const std::size_t piece = piece_bytes / size;
  std::array<MpiRequest, pieces_under_way> requests;
  const std::size_t pieces = parts_of(count, piece);
  // Piece i - 2 ends before piece i begins: its request's place is taken.
  for (std::size_t i = 0; i < pieces + pieces_under_way; ++i) {
    MpiRequest& request = requests[i % pieces_under_way];
    if (i >= pieces_under_way && i - pieces_under_way < pieces) session_->wait(request, call);
    if (i >= pieces) continue;
    const int part = static_cast<int>(std::min(piece, count - i * piece));
    std::byte* const first = static_cast<std::byte*>(values) + i * piece * size;
    session_->check(session_->module().begin_sum(first, part, type, &request), call);
  }
}

template <class Half>
void MpiCommunicator::sum_halves(Half* values, std::size_t count, const MpiCall& call) {
  constexpr std::size_t piece = pieces_under_way * piece_bytes / sizeof(float);
  widened_.resize(std::min(piece, count));
  for (std::size_t begin = 0; begin < count; begin += piece) {
    const std::size_t part = std::min(piece, count - begin);
    for (std::size_t i = 0; i < part; ++i) widened_[i] = widen(values[begin + i]);
    sum(widened_.data(), part, MpiNumber::f32, call);
    for (std::size_t i = 0; i < part; ++i) narrow(widened_[i], values[begin + i]);
  }
}

void MpiCommunicator::all_reduce_sum(std::span<double> values) {
  sum(values.data(), values.size(), MpiNumber::f64, begin("sum"));
}

void MpiCommunicator::broadcast(std::span<std::byte> bytes, int root) {
  broadcast(bytes, root, begin("broadcast"));
}

void MpiCommunicator::broadcast(std::span<std::byte> bytes, int root, const MpiCall& call) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), most_bytes));
    MpiRequest request;
    session_->check(
        session_->module().begin_broadcast(piece.data(), static_cast<int>(piece.size()), root, &request),
        call);
    session_->wait(request, call);
    bytes = bytes.subspan(piece.size());
  }
}

void MpiCommunicator::gather(std::span<const std::byte> mine, std::span<std::byte> all,
                             const std::vector<int>& sizes, const MpiCall& call) {
  std::vector<int> offsets(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), 0);
  MpiRequest request;
  session_->check(session_->module().begin_gather(mine.data(), static_cast<int>(mine.size()), all.data(),
                                                  sizes.data(), offsets.data(), &request),
                  call);
  session_->wait(request, call);
}

std::vector<std::string> MpiCommunicator::all_gather(std::string_view mine) {
  const MpiCall call = begin("all-gather of texts");
  const auto ranks = static_cast<std::size_t>(world_.size);
  if (mine.size() > most_bytes / ranks) throw std::logic_error("all_gather: the text is too long");

  const int size = static_cast<int>(mine.size());
  std::vector<int> sizes(ranks);
  gather(std::as_bytes(std::span(&size, 1)), std::as_writable_bytes(std::span(sizes)),
         std::vector<int>(ranks, static_cast<int>(sizeof(int))), call);

  std::string all(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}), '\0');
  gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)), sizes, call);

  std::vector<std::string> texts;
  std::size_t begin = 0;
  for (const int length : sizes) {
    texts.push_back(all.substr(begin, static_cast<std::size_t>(length)));
    begin += static_cast<std::size_t>(length);
  }
  return texts;
}

void MpiCommunicator::barrier() {
  const MpiCall call = begin("barrier");
  MpiRequest request;
  session_->check(session_->module().begin_barrier(&request), call);
  session_->wait(request, call);
}

void MpiCommunicator::abort(std::string_view reason) noexcept {
  try {
    log::error("all ranks end: {}", reason);
  } catch (const std::exception&) {
    // The line is lost; the end is not.
  }
  session_->give_up(reason);
}

std::unique_ptr<Communicator> make_mpi_communicator(const World& world, const CommOptions& options) {
  return std::make_unique<MpiCommunicator>(world, options);
}

std::unique_ptr<MpiRendezvous> open_mpi_rendezvous(const World& world, Seconds timeout) {
  const auto session = MpiSession::open(world, timeout, hint_at_other_way);  // the communicator joins it
  return std::make_unique<Broadcaster>(world, timeout);
}

bool mpi_is_built_in() {
  return true;
}

std::string_view mpi_in_this_build() {
  return "built in";
}

}  // namespace lockstep::comm
