#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "comm/world/sources.h"

namespace lockstep::comm {
namespace {

/// Kubeflow gives torchrun's options to each pod; the process that starts the ranks there reads them.
std::string hint_of_kubernetes(const Variables& variables) {
  for (const char* name : {"PET_NNODES", "PET_NPROC_PER_NODE"}) {
    const auto count = variables.text(name);
    if (!count || *count == "1" || *count == "1:1" || *count == "auto") continue;
    return fmt::format("{}={}, which launch reads: start `launch trainer ...`", name, *count);
  }
  // The first pod's index is 0, and a job of one pod has that too: only a stated size of 1 makes it no hint.
  const auto index = variables.text("JOB_COMPLETION_INDEX");
  if (!index || variables.text("PET_NNODES") == "1") return {};
  return fmt::format(
      "JOB_COMPLETION_INDEX={}: start `launch --nnodes N --node_rank {} --master_addr ADDRESS trainer ...`",
      *index, *index);
}

std::string hint_of_slurm(const Variables& variables) {
  const auto tasks = variables.text("SLURM_NTASKS");
  if (!tasks || *tasks == "1") return {};
  return fmt::format("SLURM_NTASKS={}: start the tasks with srun", *tasks);
}

std::string hint_of_mpi(const Variables& variables) {
  for (const char* name : {"PMI_SIZE", "MPI_LOCALNRANKS"}) {
    if (const auto size = variables.text(name); size && *size != "1")
      return fmt::format("{}={}", name, *size);
  }
  if (const auto rank = variables.text("PMI_RANK"); rank && *rank != "0")
    return fmt::format("PMI_RANK={}", *rank);
  if (const auto rank = variables.text("PMIX_RANK")) return fmt::format("PMIX_RANK={}", *rank);
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
  const bool step_of_one = variables.has("SLURM_STEP_ID") && variables.text("SLURM_NTASKS") == "1";
  if (step_of_one) return {};
  for (const auto& hint : {hint_of_kubernetes(variables), hint_of_slurm(variables), hint_of_mpi(variables)}) {
    if (!hint.empty()) return hint;
  }
  return {};
}

}  // namespace lockstep::comm
