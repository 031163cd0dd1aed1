#include "runtime/checkpoint/replica_divergence.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::runtime {

std::vector<int> diverged_ranks(const std::vector<std::string>& hashes) {
  const std::string* usual = &hashes.front();
  for (const std::string& hash : hashes) {
    if (std::ranges::count(hashes, hash) > std::ranges::count(hashes, *usual)) usual = &hash;
  }
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] != *usual) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

void require_no_drift(const std::vector<std::string>& hashes, std::int64_t step) {
  const std::vector<int> diverged = diverged_ranks(hashes);
  if (diverged.empty()) return;
  const bool tied = 2 * diverged.size() >= hashes.size();
  throw CommError(
      fmt::format("a replica has diverged: after step {} rank {} has other weights than {}; look for faulty "
                  "memory there, and "
                  "go on from the last checkpoint with --resume auto",
                  step, fmt::join(diverged, ", "), tied ? "rank 0, and either may be wrong" : "the others"));
}

}  // namespace lockstep::runtime
