#include <array>

#include <fmt/format.h>

#include "comm/bootstrap/bootstrap.h"
#include "runtime/commands/commands.h"
#include "runtime/plan/print.h"
#include "runtime/session.h"

namespace lockstep::runtime {

int plan_command(const std::vector<std::string>& arguments) {
  const Options options = parse_options(arguments);
  const TrainingTask task = make_task_without_data(options);
  const comm::World world = comm::find_world(comm::process_environment(), options.world);
  const auto device = open_device(options, world);
  constexpr double mebibyte = 1 << 20;
  const PlanRequest request{
      .mode = Mode::train,
      .batch_size = options.batch_size,
      .buckets = {.first_bytes = static_cast<std::size_t>(options.first_bucket_mb * mebibyte),
                  .bytes = static_cast<std::size_t>(options.bucket_cap_mb * mebibyte)},
      .schedule = {.exchange = true, .overlap = !options.no_overlap}};
  const Plan plan = make_plan(task.model, task.input, request, *device, {});
  fmt::print("{}\n{}", task.model.name, to_text(plan, memory_need(std::span(&plan, 1), options.optimizer)));
  return 0;
}

}  // namespace lockstep::runtime
