#include "comm/tcp/absent_ranks.h"

#include "kernels/base/deadline.h"

namespace lockstep::comm {
namespace {

// The deadline has passed already: an answer that takes longer is not worth the wait.
constexpr Seconds time_per_look{0.5};

}  // namespace

std::vector<int> absent_ranks(StoreClient& store, int awaited, int ranks,
                              const std::function<std::string(int rank)>& key_of) {
  std::vector<int> absent{awaited};
  for (int rank = awaited + 1; rank < ranks; ++rank) {
    if (!store.get(key_of(rank), Deadline::in(time_per_look))) absent.push_back(rank);
  }
  return absent;
}

}  // namespace lockstep::comm
