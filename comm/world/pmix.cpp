// PMIx's variables (https://pmix.github.io: "PMIX_RANK" and "PMIX_NAMESPACE" of a client), as `srun
// --mpi=pmix` sets them.
#include "comm/world/run_id.h"
#include "comm/world/sources.h"
#include "comm/world/variables.h"

namespace lockstep::comm {

Finding examine_pmix(const Environment& environment) {
  const Variables variables(environment);
  if (!variables.has("PMIX_RANK")) return {"pmix", {}, "PMIX_RANK is not set"};
  if (started_by_mpirun(variables)) return {"pmix", {}, "PMIX_RANK is mpirun's"};
  // PMIx tells a process's rank in its environment, and all else only to those who speak its protocol.
  const Finding slurm = examine_slurm(environment);
  if (!slurm.world)
    return {"pmix", {}, "PMIX_RANK is set, but not how many ranks there are: " + slurm.reason};
  World world = *slurm.world;
  world.source = "pmix";
  world.rank = variables.required_number("PMIX_RANK", 0, world.size - 1);
  world.run_id = make_run_id(world, environment, {"PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"});
  return {"pmix", world, "a task of srun --mpi=pmix"};
}

}  // namespace lockstep::comm
