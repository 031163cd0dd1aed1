#include <fmt/format.h>

#include "comm/make_communicator.h"
#include "comm/world/world.h"
#include "runtime/checkpoint/hugging_face.h"
#include "runtime/commands/commands.h"
#include "runtime/commands/plan_for_gpu.h"
#include "runtime/commands/scaling.h"
#include "runtime/machine/open_device.h"
#include "runtime/options/option_readers.h"
#include "runtime/options/typed_options.h"
#include "runtime/plan/print.h"
#include "runtime/run/device_data.h"
#include "runtime/run/run_plans.h"

namespace lockstep::runtime {

int plan_command(const std::vector<std::string>& given) {
  std::vector<std::string> arguments = given;
  const ScalingRequest scaling = take_scaling_request(arguments);
  // What a GPU would give is asked of a model, whatever data are here: samples as it wants them.
  Options options = parse_options_for(training_options(), arguments, scaling.gpu.empty() ? "" : "synthetic");
  require_read_by_optimizer(options);
  take_pretrained_config(options, options.init_from, ModelUse::training);
  if (!scaling.gpu.empty()) return print_plan_for_gpu(options, scaling), 0;
  if (scaling.ranks > 0) return print_scaling(options, scaling), 0;
  TrainingTask task = make_task_without_data(options);
  const comm::World world = comm::find_world(comm::process_environment(), options.world);
  const auto device = open_device(options, world);
  options.amp = amp_on(*device, options.amp);
  task = fed_by_bytes(*device, std::move(task));
  const PlanKey key{.role = options.accumulate_steps > 1 ? MicroBatchRole::last : MicroBatchRole::only,
                    .batch = batch_size_per_rank(options, world.size)};
  const bool crosses_nodes =
      comm::spans_nodes(world, comm::process_environment()("LOCKSTEP_NODE").value_or(""));
  const PlanRequest request =
      training_request(options, key, world.size,
                       {.defers = defers_updates(*device, options.backend, crosses_nodes),
                        .shards_updates = can_shard_updates(*device, options.backend, crosses_nodes),
                        .stream_ordered = comm::may_use_nccl(options.backend, *device)});
  const Plan plan = make_plan(task.model, task.input, request, *device, plan_constraints(options));
  if (options.num_workers < 0) options.num_workers = usable_cores(world);
  MemoryNeed need = run_memory_need(options, std::span(&plan, 1));
  need.pinned = pinned_bytes(*device, options, plan);
  fmt::print("{}\n{}", task.model.name, to_text(plan, need));
  if (const auto free = device->free_bytes()) {
    fmt::print("  free on this GPU {} bytes: {}\n", *free,
               gpu_bytes(need) <= *free ? "it fits" : "it does not fit");
  }
  return 0;
}

}  // namespace lockstep::runtime
