// Variables of Open MPI (https://docs.open-mpi.org/en/main/tuning-apps/environment-var.html) and of PMIx
// (https://pmix.github.io: a client's PMIX_RANK and PMIX_NAMESPACE), as `srun --mpi=pmix` sets them.

#include "comm/world/sources.h"
#include "kernels/base/division.h"

namespace lockstep::comm {

Finding examine_openmpi(const Environment& environment) {
  const Variables variables(environment);
  if (!variables.has_any({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"})) {
    return {"openmpi", {}, "OMPI_COMM_WORLD_RANK is not set"};
  }
  World world;
  world.source = "openmpi";
  world.size = variables.required_number("OMPI_COMM_WORLD_SIZE", 1, most_ranks);
  world.rank = variables.required_number("OMPI_COMM_WORLD_RANK", 0, world.size - 1);
  world.local_size = variables.required_number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, world.size);
  world.local_rank = variables.required_number("OMPI_COMM_WORLD_LOCAL_RANK", 0, world.local_size - 1);
  // OMPI_COMM_WORLD_NODE_RANK is the place among all jobs' processes on the node, so the node's number is a
  // guess, right when every node has as many ranks, placed in blocks (--map-by slot). The
  // rendezvous finds out which ranks share a node.
  world.node_count = parts_of(world.size, world.local_size);
  world.node_rank = world.rank / world.local_size;
  // Before MASTER_ADDR, which by ssh reaches other hosts only with `-x`. The namespace is made from mpirun's
  // host and pid, which two containers may share; in Open MPI 4 the other variable is random.
  world.run_id = make_run_id(world, environment, {"PMIX_NAMESPACE", "OMPI_MCA_orte_precondition_transports"});
  world.master_addr = master_addr(variables).value_or(world.master_addr);
  world.master_port = master_port(variables);
  return {"openmpi", world, "OMPI_COMM_WORLD_RANK and _SIZE are set"};
}

Finding examine_pmix(const Environment& environment) {
  const Variables variables(environment);
  if (!variables.has("PMIX_RANK")) return {"pmix", {}, "PMIX_RANK is not set"};
  if (started_by_mpirun(variables)) return {"pmix", {}, "PMIX_RANK is mpirun's"};
  // The environment has only the process's rank; everything else needs PMIx's protocol.
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
