#include "runtime/options/plan_options.h"

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::runtime {

std::int64_t batch_size_per_rank(const Options& options, int world_size) {
  if (options.global_batch == 0) {
    if (options.batch_size > most_global_batch / world_size) {
      throw UsageError(fmt::format("--batch-size {} on {} ranks: their sum is at most {}", options.batch_size,
                                   world_size, most_global_batch));
    }
    return options.batch_size;
  }
  if (options.global_batch % world_size != 0) {
    throw UsageError(
        fmt::format("--global-batch {} is not divisible by {} ranks", options.global_batch, world_size));
  }
  return options.global_batch / world_size;
}

PlanRequest training_request(const Options& options, std::int64_t batch_size, int ranks,
                             ScheduleOptions exchange) {
  exchange.overlap = !options.no_overlap;
  constexpr double mebibyte = 1 << 20;
  return {.key = {.mode = Mode::train, .batch = batch_size},
          .buckets = {.first_bytes = static_cast<std::size_t>(options.first_bucket_mb * mebibyte),
                      .bytes = static_cast<std::size_t>(options.bucket_cap_mb * mebibyte),
                      .ranks = ranks},
          .schedule = exchange,
          .clip_grad_norm = options.clip_grad_norm,
          .optimizer = options.optimizer};
}

PlanConstraints plan_constraints(const Options& options) {
  return {.matmul_precision = options.matmul_precision, .allow_unused = options.allow_unused};
}

}  // namespace lockstep::runtime
