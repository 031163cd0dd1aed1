#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "comm/world/sources.h"

namespace lockstep::comm {
namespace {

bool is_one_node(const std::string& count) {
  return count == "1" || count == "1:1";
}

/// Kubeflow gives torchrun's options to each pod; the process that starts the ranks there reads them.
std::string hint_of_kubernetes(const Variables& variables) {
  for (const char* name : {"PET_NNODES", "PET_NPROC_PER_NODE"}) {
    const auto count = variables.text(name);
    if (!count || is_one_node(*count) || *count == "auto") continue;
    return fmt::format("{}={}, which launch reads: start `launch trainer ...`", name, *count);
  }
  // The first pod's index is 0, and a job of one pod has that too: only a stated size of 1 makes it no hint.
  const auto index = variables.text("JOB_COMPLETION_INDEX");
  if (!index || is_one_node(variables.text_or("PET_NNODES", ""))) return {};
  return fmt::format(
      "JOB_COMPLETION_INDEX={}: start `launch --nnodes N --node_rank {} --master_addr ADDRESS trainer ...`",
      *index, *index);
}

std::string hint_of_slurm(const Variables& variables) {
  // SLURM_NTASKS is not set for --ntasks-per-node or --nodes alone.
  for (const char* name : {"SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_JOB_NUM_NODES"}) {
    const auto count = variables.text(name);
    if (count && *count != "1") return fmt::format("{}={}: start the tasks with srun", name, *count);
  }
  return {};
}

std::string hint_of_mpi(const Variables& variables) {
  const auto hint = [](const char* name, const std::string& value) {
    return fmt::format("{}={}: start the ranks with launch, srun or Open MPI's mpirun", name, value);
  };
  for (const char* name : {"PMI_SIZE", "MPI_LOCALNRANKS"}) {
    if (const auto size = variables.text(name); size && *size != "1") return hint(name, *size);
  }
  if (const auto rank = variables.text("PMI_RANK"); rank && *rank != "0") return hint("PMI_RANK", *rank);
  if (const auto rank = variables.text("PMIX_RANK")) return hint("PMIX_RANK", *rank);
  return {};
}

}  // namespace

Finding examine_alone(const Environment& environment) {
  World world;
  world.source =
      fmt::format("alone {} {}", getpid(), std::chrono::system_clock::now().time_since_epoch().count());
  world.run_id = make_run_id(world, environment, {});
  world.source = "alone";
  return {"alone", world, "always possible"};
}

std::string hint_at_more_ranks(const Environment& environment) {
  const Variables variables(environment);
  if (is_step_of_one(variables)) return {};
  for (const auto& hint : {hint_of_kubernetes(variables), hint_of_slurm(variables), hint_of_mpi(variables)}) {
    if (!hint.empty()) return hint;
  }
  return {};
}

}  // namespace lockstep::comm
