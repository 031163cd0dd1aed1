#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "comm/bootstrap/run_id.h"
#include "comm/bootstrap/sources.h"
#include "comm/bootstrap/variables.h"

namespace lockstep::comm {

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
  if (const auto tasks = variables.text("SLURM_NTASKS"); tasks && *tasks != "1") {
    return fmt::format("SLURM_NTASKS={}: start the tasks with srun", *tasks);
  }
  for (const char* name : {"PMI_SIZE", "MPI_LOCALNRANKS"}) {
    if (const auto size = variables.text(name); size && *size != "1")
      return fmt::format("{}={}", name, *size);
  }
  for (const char* name : {"PMI_RANK", "PMIX_RANK", "JOB_COMPLETION_INDEX"}) {
    if (const auto rank = variables.text(name); rank && *rank != "0")
      return fmt::format("{}={}", name, *rank);
  }
  if (variables.has("PMIX_RANK")) return "PMIX_RANK=0";
  return {};
}

}  // namespace lockstep::comm
