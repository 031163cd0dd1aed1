#include <algorithm>

#include "runtime/plan/bucket.h"

namespace lockstep::runtime {

std::int64_t updated_elements(const Bucket& bucket, int ranks) {
  return bucket.shards_update ? bucket.count / ranks : bucket.count;
}

void shard_updates(ArenaPlan& arena) {
  constexpr std::int64_t least_elements = std::int64_t{1} << 18;
  if (arena.ranks == 1 || arena.gradient_dtype != arena.dtype) return;
  for (Bucket& bucket : arena.buckets) {
    // A kernel takes decay of its first elements, and is the same on every rank.
    const bool is_uniform = bucket.decayed == 0 || bucket.decayed == bucket.count;
    bucket.shards_update = is_uniform && bucket.count >= least_elements;
  }
  std::int64_t first = 0;
  for (Bucket& bucket : arena.buckets) {
    bucket.states_first = first;
    first += updated_elements(bucket, arena.ranks);
  }
}

bool shards_updates(const ArenaPlan& arena) {
  return std::ranges::any_of(arena.buckets, &Bucket::shards_update);
}

std::int64_t updated_elements(const ArenaPlan& arena) {
  std::int64_t elements = 0;
  for (const Bucket& bucket : arena.buckets) elements += updated_elements(bucket, arena.ranks);
  return elements;
}

}  // namespace lockstep::runtime
