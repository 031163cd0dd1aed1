#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tests/simgpu/nccl/communicator.h"
#include "tests/simgpu/nccl/transfer.h"

namespace simgpu::nccl {

/// A collective on a stream. It never blocks: `step` does what the peers' progress allows and is asked again.
///
/// Each chunk takes two stages, counted in RankSlot::progress over the whole life of the communicator: own
/// input is in the mailbox; own slice is summed. Two mailboxes suffice: a rank that has filled chunk c + 1
/// has collected chunk c, and nobody fills c + 2 before all have filled c + 1.
class Collective {
 public:
  Collective(std::shared_ptr<Communicator> rank, const Call& call, const std::byte* send, std::byte* receive);
  ~Collective();
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  /// True when it is done; the next call then begins it anew, as a replayed graph does.
  bool step();

 private:
  enum class Phase { waits_its_turn, fills, is_filled, is_summed, is_stuck };

  bool advance();
  void begin();
  void finish();
  std::vector<std::byte*> mailboxes() const;
  void announce(std::uint64_t stage);
  bool all_reached(std::uint64_t stage) const;
  void check_same_call() const;
  bool peer_is_lost(std::uint64_t stage);
  std::uint64_t stage() const { return 2 * rank_->chunks_done; }

  std::shared_ptr<Communicator> rank_;
  const Call call_;
  const Transfer transfer_;
  std::optional<std::uint64_t> ticket_;  ///< none in a graph
  bool waited_for_ = false;              ///< counted as pending

  Phase phase_ = Phase::waits_its_turn;
  std::uint64_t number_ = 0;
  std::size_t chunk_ = 0;
};

}  // namespace simgpu::nccl
