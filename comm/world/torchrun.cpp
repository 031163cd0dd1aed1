// torchrun's worker environment (https://pytorch.org/docs/stable/elastic/run.html), which `launch` makes too.
#include <fmt/format.h>

#include "comm/world/sources.h"
#include "kernels/base/division.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

bool any_rank_variable(const Variables& variables) {
  return variables.has_any({"RANK", "WORLD_SIZE", "LOCAL_RANK"});
}

/// Kubeflow's PyTorchJob runs the program once in each pod, without LOCAL_RANK: PET_NNODES counts the pods.
bool one_rank_a_pod(const Variables& variables) {
  return !variables.has("LOCAL_RANK") && variables.has("PET_NNODES") &&
         variables.text("PET_NNODES") == variables.text("WORLD_SIZE");
}

void check_complete(const Variables& variables) {
  const std::string missing =
      one_rank_a_pod(variables)
          ? variables.missing({"RANK", "MASTER_ADDR", "MASTER_PORT"})
          : variables.missing({"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"});
  if (missing.empty()) return;
  if (missing == "LOCAL_RANK" && variables.has("PET_NPROC_PER_NODE")) {
    throw UsageError(
        "RANK and WORLD_SIZE are set without LOCAL_RANK, as a PyTorchJob with several processes a pod "
        "does: start `launch trainer ...`, which reads PET_NPROC_PER_NODE");
  }
  throw UsageError(
      fmt::format("RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT go together, but {} {}", missing,
                  missing.find(',') == std::string::npos ? "is not set: set it" : "are not set: set them"));
}

/// Scripts set the five variables from those of srun or mpirun, which tell of the nodes, too.
bool read_node_of_outer_launcher(const Environment& environment, World& world) {
  const Variables variables(environment);
  if (variables.has_any({"LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "GROUP_RANK"})) return false;
  const int local_rank = variables.required_number("LOCAL_RANK", 0, world.size - 1);
  for (const auto examine : {examine_openmpi, examine_slurm}) {
    const auto outer = examine(environment).world;
    if (!outer || outer->rank != world.rank || outer->size != world.size || outer->local_rank != local_rank)
      continue;
    world.local_rank = local_rank;
    world.local_size = outer->local_size;
    world.node_rank = outer->node_rank;
    world.node_count = outer->node_count;
    return true;
  }
  return false;
}

/// The node's place: from the optional variables as far as they are set, else one node is assumed.
void read_node(const Variables& variables, World& world) {
  const auto nodes = variables.number("GROUP_WORLD_SIZE", 1, world.size);
  const auto local_size = variables.number("LOCAL_WORLD_SIZE", 1, world.size);
  world.local_size = local_size.value_or(world.size / nodes.value_or(1));
  world.node_count = nodes.value_or(parts_of(world.size, world.local_size));
  world.local_rank = variables.required_number("LOCAL_RANK", 0, world.local_size - 1);
  const int guess = (world.rank - world.local_rank) / world.local_size;
  world.node_rank = variables.number("GROUP_RANK", 0, world.node_count - 1).value_or(guess);
  if (world.node_count == 1 && world.local_rank != world.rank) {
    throw UsageError(
        fmt::format("RANK={} and LOCAL_RANK={} differ, so there are several nodes: set LOCAL_WORLD_SIZE and "
                    "GROUP_RANK too",
                    world.rank, world.local_rank));
  }
}

World read_world(const Variables& variables, const Environment& environment, const char* source) {
  check_complete(variables);
  World world;
  world.source = source;
  world.size = variables.required_number("WORLD_SIZE", 1, most_ranks);
  world.rank = variables.required_number("RANK", 0, world.size - 1);
  world.master_addr = *variables.text("MASTER_ADDR");
  world.master_port = variables.required_number("MASTER_PORT", 1, 65535);
  if (one_rank_a_pod(variables)) {
    world.node_count = world.size;
    world.node_rank = world.rank;
  } else if (!read_node_of_outer_launcher(environment, world)) {
    read_node(variables, world);
  }
  world.run_id = make_run_id(world, environment, {"TORCHELASTIC_RUN_ID"});
  // Agents of several nodes count for themselves, and do not count a restart that another node began.
  if (world.node_count == 1) world.restart = restart_count(variables, "TORCHELASTIC_RESTART_COUNT");
  return world;
}

/// Child processes of our ranks inherit LOCKSTEP_LAUNCH, so it counts only with the address and port in
/// force.
bool launch_in_force(const Variables& variables) {
  const auto text = variables.text(launch_variable);
  if (!text) return false;
  const auto info = parse_launch_info(*text);
  if (!info) {
    throw UsageError(
        fmt::format("{}={} is not <addr>:<port>,<start ns>,<columns>: unset it", launch_variable, *text));
  }
  return variables.text("MASTER_ADDR") == info->addr &&
         variables.text("MASTER_PORT") == std::to_string(info->port);
}

}  // namespace

Finding examine_launch(const Environment& environment) {
  const Variables variables(environment);
  if (!launch_in_force(variables)) {
    const bool there = variables.has(launch_variable);
    return {"launch", {}, fmt::format("{} is {}", launch_variable, there ? "of another launch" : "not set")};
  }
  World world = read_world(variables, environment, "launch");
  world.master_port_is_ours = true;
  world.start_ns = parse_launch_info(*variables.text(launch_variable))->start_boottime_ns;
  return {"launch", world, "RANK, WORLD_SIZE and LOCKSTEP_LAUNCH are set"};
}

Finding examine_torchrun(const Environment& environment) {
  const Variables variables(environment);
  if (!any_rank_variable(variables)) return {"torchrun", {}, "RANK and WORLD_SIZE are not set"};
  if (launch_in_force(variables)) return {"torchrun", {}, "RANK and WORLD_SIZE are launch's"};
  return {"torchrun", read_world(variables, environment, "torchrun"), "RANK and WORLD_SIZE are set"};
}

}  // namespace lockstep::comm
