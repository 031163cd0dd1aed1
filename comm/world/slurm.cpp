// Slurm's variables (https://slurm.schedmd.com/srun.html, "OUTPUT ENVIRONMENT VARIABLES").
#include <fmt/format.h>

#include <numeric>

#include "comm/world/run_id.h"
#include "comm/world/slurm_lists.h"
#include "comm/world/sources.h"
#include "comm/world/variables.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

std::vector<int> tasks_per_node(const Variables& variables, int size) {
  const std::string text = variables.text_or("SLURM_STEP_TASKS_PER_NODE", "");
  const auto tasks = expand_tasks_per_node(text);
  if (!tasks || std::accumulate(tasks->begin(), tasks->end(), 0) != size) {
    throw UsageError(
        fmt::format("SLURM_STEP_TASKS_PER_NODE={} does not add up to SLURM_NTASKS={}", text, size));
  }
  return *tasks;
}

std::string master_address(const Variables& variables, int node_count) {
  if (const auto given = variables.text("MASTER_ADDR")) return *given;
  if (node_count == 1) return World{}.master_addr;
  const std::string text = variables.text_or("SLURM_STEP_NODELIST", "");
  const auto nodes = expand_node_list(text);
  if (!nodes) throw UsageError(fmt::format("SLURM_STEP_NODELIST={} is no list of nodes", text));
  return nodes->front();
}

}  // namespace

Finding examine_slurm(const Environment& environment) {
  const Variables variables(environment);
  // The batch shell and salloc have SLURM_NTASKS too, and mpirun's daemons leave a SLURM_PROCID: only srun's
  // tasks know their step's layout.
  if (!variables.missing({"SLURM_PROCID", "SLURM_STEP_ID", "SLURM_STEP_TASKS_PER_NODE"}).empty()) {
    return {"slurm", {}, "not a task of srun"};
  }
  if (started_by_mpirun(variables))
    return {"slurm", {}, "mpirun started this process; its daemons are the tasks"};
  World world;
  world.source = "slurm";
  world.size = variables.required_number("SLURM_NTASKS", 1, most_ranks);
  if (world.size == 1) return {"slurm", {}, "a step of one task"};
  world.rank = variables.required_number("SLURM_PROCID", 0, world.size - 1);
  const std::vector<int> tasks = tasks_per_node(variables, world.size);
  world.node_count = static_cast<int>(tasks.size());
  world.node_rank = variables.required_number("SLURM_NODEID", 0, world.node_count - 1);
  world.local_size = tasks[static_cast<std::size_t>(world.node_rank)];
  world.local_rank = variables.required_number("SLURM_LOCALID", 0, world.local_size - 1);
  world.master_addr = master_address(variables, world.node_count);
  world.master_port = variables.number("MASTER_PORT", 1, 65535).value_or(0);
  world.run_id = make_run_id(world, environment, {"SLURM_JOB_ID", "SLURM_STEP_ID"});
  return {"slurm", world, "a task of srun"};
}

}  // namespace lockstep::comm
