#include "comm/world/world.h"

#include "comm/world/environment.h"
#include "comm/world/sources.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/unit/comm/variables.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::tests_of_world;

namespace {

/// `srun --mpi=pmix` adds these.
const Map pmix = slurm + Map{{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "slurm.pmix.77.0"}};
/// mpirun inside salloc on several nodes: its daemons are one task of a step on each other node.
const Map daemon_step{{"SLURM_JOB_ID", "77"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_NTASKS", "2"},
                      {"SLURM_PROCID", "1"},
                      {"SLURM_LOCALID", "0"},
                      {"SLURM_NODEID", "1"},
                      {"SLURM_STEP_NODELIST", "gpu[02-03]"},
                      {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}};
/// Two nodes with two ranks each, on the second.
const Map openmpi_two_nodes =
    openmpi + Map{{"OMPI_COMM_WORLD_RANK", "3"},       {"OMPI_COMM_WORLD_SIZE", "4"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                  {"OMPI_COMM_WORLD_NODE_RANK", "1"},  {"PMIX_RANK", "3"}};
/// torchrun --standalone --nproc_per_node 2.
const Map torchrun_one_node =
    torchrun + Map{{"RANK", "1"},           {"WORLD_SIZE", "2"},       {"LOCAL_RANK", "1"},
                   {"GROUP_RANK", "0"},     {"GROUP_WORLD_SIZE", "1"}, {"MASTER_ADDR", "localhost"},
                   {"MASTER_PORT", "41231"}};
/// A pod of Kubeflow's PyTorchJob with two pods of one process each, the program started directly.
const Map pytorchjob{{"PYTHONUNBUFFERED", "1"},    {"MASTER_ADDR", "job-master-0"},
                     {"MASTER_PORT", "23456"},     {"RANK", "1"},
                     {"WORLD_SIZE", "2"},          {"PET_MASTER_ADDR", "job-master-0"},
                     {"PET_MASTER_PORT", "23456"}, {"PET_NNODES", "2"},
                     {"PET_NODE_RANK", "1"},       {"PET_NPROC_PER_NODE", "1"}};
/// A node of Kubeflow's TrainJob: options for torchrun, no rank.
const Map trainjob{{"JOB_COMPLETION_INDEX", "0"},           {"PET_NNODES", "2"},
                   {"PET_NPROC_PER_NODE", "auto"},          {"PET_NODE_RANK", "0"},
                   {"PET_MASTER_ADDR", "job-node-0-0.job"}, {"PET_MASTER_PORT", "29500"}};

}  // namespace

TEST_CASE("OMP_NUM_THREADS counts when it begins with a number of threads that a rank may have",
          "[bootstrap]") {
  const auto threads = [](const std::optional<std::string>& text) {
    return omp_threads([&](const char*) { return text; });
  };
  CHECK(threads(std::nullopt) == 0);
  for (const char* nothing : {"", "0", "-3", "many"}) CHECK(threads(nothing) == 0);
  CHECK(threads("4,2") == 4);  // of two levels
  CHECK(threads("4096") == 4096);
  for (const char* too_many : {"4097", "1000000", "99999999999999999999"}) {
    CHECK_THROWS_AS(threads(too_many), UsageError);
  }
}

TEST_CASE("the world is read from whoever started us", "[bootstrap]") {
  struct Row {
    const char* what;
    Map variables;
    const char* source;
    int rank, size, local_rank, local_size, node_rank, node_count;
    const char* master_addr;
    int master_port;
    bool ours;
  };
  const auto row = GENERATE(values<Row>({
      {"nothing", {}, "alone", 0, 1, 0, 1, 0, 1, "127.0.0.1", 0, false},
      {"torchrun", torchrun, "torchrun", 3, 4, 1, 2, 1, 2, "10.0.0.1", 29500, false},
      {"launch", launch, "launch", 3, 4, 1, 2, 1, 2, "10.0.0.1", 29500, true},
      {"left over from another launch", torchrun + Map{{"LOCKSTEP_LAUNCH", "10.0.0.1:29501,1,0"}}, "torchrun",
       3, 4, 1, 2, 1, 2, "10.0.0.1", 29500, false},
      {"the five alone", five, "torchrun", 1, 2, 1, 2, 0, 1, "::1", 1, false},
      {"the five and the local size",
       five + Map{{"WORLD_SIZE", "8"}, {"RANK", "5"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}},
       "torchrun", 5, 8, 1, 4, 1, 2, "::1", 1, false},
      {"Open MPI", openmpi, "openmpi", 2, 3, 2, 3, 0, 1, "127.0.0.1", 0, false},
      {"Open MPI with an address", openmpi + Map{{"MASTER_ADDR", "h"}, {"MASTER_PORT", "99"}}, "openmpi", 2,
       3, 2, 3, 0, 1, "h", 99, false},
      {"Open MPI with an empty address", openmpi + Map{{"MASTER_ADDR", ""}, {"MASTER_PORT", ""}}, "openmpi",
       2, 3, 2, 3, 0, 1, "127.0.0.1", 0, false},
      {"torchrun on one node", torchrun_one_node, "torchrun", 1, 2, 1, 2, 0, 1, "localhost", 41231, false},
      {"mpirun on two nodes", openmpi_two_nodes, "openmpi", 3, 4, 1, 2, 1, 2, "127.0.0.1", 0, false},
      {"mpirun in salloc, rank 0 beside mpirun",
       openmpi + Map{{"SLURM_JOB_ID", "77"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_NODELIST", "gpu[01-02]"}},
       "openmpi", 2, 3, 2, 3, 0, 1, "127.0.0.1", 0, false},
      {"mpirun in salloc, under a daemon", openmpi_two_nodes + daemon_step, "openmpi", 3, 4, 1, 2, 1, 2,
       "127.0.0.1", 0, false},
      {"srun --mpi=pmix", pmix, "pmix", 3, 5, 1, 2, 1, 3, "gpu01", 0, false},
      {"a PyTorchJob's pod", pytorchjob, "torchrun", 1, 2, 0, 1, 1, 2, "job-master-0", 23456, false},
      {"torchrun in a PyTorchJob's pod", pytorchjob + torchrun, "torchrun", 3, 4, 1, 2, 1, 2, "10.0.0.1",
       29500, false},
      {"launch in a TrainJob's node", trainjob + launch, "launch", 3, 4, 1, 2, 1, 2, "10.0.0.1", 29500, true},
      {"a TrainJob of one node", trainjob + Map{{"PET_NNODES", "1"}}, "alone", 0, 1, 0, 1, 0, 1, "127.0.0.1",
       0, false},
      {"an elastic TrainJob of one node", trainjob + Map{{"PET_NNODES", "1:1"}}, "alone", 0, 1, 0, 1, 0, 1,
       "127.0.0.1", 0, false},
      {"Slurm", slurm, "slurm", 3, 5, 1, 2, 1, 3, "gpu01", 0, false},
      {"a step of one task", slurm + Map{{"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}, {"PMIX_RANK", "0"}},
       "alone", 0, 1, 0, 1, 0, 1, "127.0.0.1", 0, false},
      {"torchrun in a batch shell", batch_shell + five, "torchrun", 1, 2, 1, 2, 0, 1, "::1", 1, false},
      {"torchrun once on each node of a step",
       torchrun + slurm +
           Map{{"SLURM_NTASKS", "2"},
               {"SLURM_PROCID", "1"},
               {"SLURM_LOCALID", "0"},
               {"SLURM_NODEID", "1"},
               {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}},
       "torchrun", 3, 4, 1, 2, 1, 2, "10.0.0.1", 29500, false},
      {"launch under mpirun -np 1",
       five + Map{{"OMPI_COMM_WORLD_RANK", "0"},
                  {"OMPI_COMM_WORLD_SIZE", "1"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}},
       "torchrun", 1, 2, 1, 2, 0, 1, "::1", 1, false},
  }));
  CAPTURE(row.what);
  const World world = find_world(environment(row.variables));
  CHECK(world.source == row.source);
  CHECK(world.rank == row.rank);
  CHECK(world.size == row.size);
  CHECK(world.local_rank == row.local_rank);
  CHECK(world.local_size == row.local_size);
  CHECK(world.node_rank == row.node_rank);
  CHECK(world.node_count == row.node_count);
  CHECK(world.master_addr == row.master_addr);
  CHECK(world.master_port == row.master_port);
  CHECK(world.master_port_is_ours == row.ours);
  CHECK(world.run_id.size() == 16);
}

TEST_CASE("never a silent world of one, never a guess", "[bootstrap]") {
  struct Row {
    Map variables;
    const char* message_part;
  };
  const auto row = GENERATE(values<Row>({
      {without(torchrun, "RANK"), "but RANK is not set"},
      {without(torchrun, "WORLD_SIZE"), "but WORLD_SIZE is not set"},
      {without(torchrun, "LOCAL_RANK"), "but LOCAL_RANK is not set"},
      {without(torchrun, "MASTER_ADDR"), "but MASTER_ADDR is not set"},
      {without(without(torchrun, "MASTER_ADDR"), "MASTER_PORT"),
       "but MASTER_ADDR, MASTER_PORT are not set: set them"},
      {{{"WORLD_SIZE", "2"}}, "RANK"},
      {torchrun + Map{{"RANK", "4"}}, "RANK=4 is no number from 0 to 3"},
      {torchrun + Map{{"RANK", "-1"}}, "RANK=-1"},
      {torchrun + Map{{"RANK", "1x"}}, "RANK=1x"},
      {torchrun + Map{{"RANK", ""}}, "RANK= "},
      {torchrun + Map{{"RANK", " 1"}}, "RANK= 1"},
      {torchrun + Map{{"WORLD_SIZE", "0"}}, "WORLD_SIZE=0"},
      {torchrun + Map{{"WORLD_SIZE", "99999999999"}}, "WORLD_SIZE=99999999999"},
      {torchrun + Map{{"LOCAL_RANK", "2"}}, "LOCAL_RANK=2"},
      {torchrun + Map{{"LOCAL_WORLD_SIZE", "5"}}, "LOCAL_WORLD_SIZE=5"},
      {torchrun + Map{{"GROUP_RANK", "2"}}, "GROUP_RANK=2"},
      {torchrun + Map{{"MASTER_PORT", "70000"}}, "MASTER_PORT=70000"},
      {five + Map{{"LOCAL_RANK", "0"}}, "set LOCAL_WORLD_SIZE"},
      {torchrun + Map{{"LOCKSTEP_LAUNCH", "nonsense"}}, "LOCKSTEP_LAUNCH=nonsense"},
      {without(openmpi, "OMPI_COMM_WORLD_SIZE"), "OMPI_COMM_WORLD_SIZE is not set"},
      {without(openmpi, "OMPI_COMM_WORLD_LOCAL_SIZE"), "OMPI_COMM_WORLD_LOCAL_SIZE is not set"},
      {openmpi + Map{{"OMPI_COMM_WORLD_RANK", "x"}}, "OMPI_COMM_WORLD_RANK=x"},
      {slurm + Map{{"SLURM_STEP_TASKS_PER_NODE", "2(x3)"}}, "SLURM_STEP_TASKS_PER_NODE=2(x3)"},
      {slurm + Map{{"SLURM_STEP_TASKS_PER_NODE", "2(y2),1"}}, "SLURM_STEP_TASKS_PER_NODE=2(y2),1"},
      {slurm + Map{{"SLURM_STEP_NODELIST", "gpu[01-"}}, "SLURM_STEP_NODELIST=gpu[01-"},
      {slurm + Map{{"SLURM_NODEID", "3"}}, "SLURM_NODEID=3"},
      {without(slurm, "SLURM_LOCALID"), "SLURM_LOCALID is not set"},
      {batch_shell, "SLURM_NTASKS=4"},
      {{{"PMI_SIZE", "2"}}, "PMI_SIZE=2"},
      {{{"PMIX_RANK", "0"}}, "PMIX_RANK=0"},
      {{{"JOB_COMPLETION_INDEX", "1"}}, "JOB_COMPLETION_INDEX=1: start `launch --nnodes N --node_rank 1"},
      {{{"JOB_COMPLETION_INDEX", "0"}}, "JOB_COMPLETION_INDEX=0"},
      {trainjob, "PET_NNODES=2, which launch reads"},
      {trainjob + Map{{"PET_NNODES", "1"}, {"PET_NPROC_PER_NODE", "4"}}, "PET_NPROC_PER_NODE=4"},
      {trainjob + Map{{"PET_NNODES", "1:4"}}, "PET_NNODES=1:4"},
      {pytorchjob + Map{{"WORLD_SIZE", "4"}, {"PET_NPROC_PER_NODE", "2"}}, "reads PET_NPROC_PER_NODE"},
      {without(pytorchjob, "MASTER_PORT"), "but MASTER_PORT is not set"},
      {{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "x"}}, "PMIX_RANK=1"},
      {pmix + Map{{"PMIX_RANK", "5"}}, "PMIX_RANK=5 is no number from 0 to 4"},
  }));
  CAPTURE(row.variables);
  CHECK_THROWS_AS(find_world(environment(row.variables)), UsageError);
  CHECK_THROWS_WITH(find_world(environment(row.variables)), tests::contains(row.message_part));
  CHECK(find_world(environment(row.variables), "alone").size == 1);
}

TEST_CASE("two sources that disagree are both shown, and --world decides", "[bootstrap]") {
  const Environment both = environment(torchrun + openmpi);
  CHECK_THROWS_WITH(find_world(both),
                    "torchrun says rank 3 of 4, local rank 1 of 2, but openmpi says rank 2 of 3, "
                    "local rank 2 of 3: choose with --world torchrun or --world openmpi");
  CHECK(find_world(both, "torchrun").rank == 3);
  CHECK(find_world(both, "openmpi").rank == 2);
  CHECK(find_world(both, "alone").size == 1);
  CHECK_THROWS_WITH(
      find_world(environment(pmix + Map{{"PMIX_RANK", "0"}})),
      "pmix says rank 0 of 5, local rank 1 of 2, but slurm says rank 3 of 5, local rank 1 of 2: choose "
      "with --world pmix or --world slurm");
  CHECK_THROWS_WITH(find_world(both, "slurm"), "--world slurm: not a task of srun");
  CHECK_THROWS_WITH(find_world(environment(openmpi_two_nodes + daemon_step), "slurm"),
                    "--world slurm: mpirun started this process; its daemons are the tasks");
  CHECK_THROWS_WITH(find_world(both, "launch"), tests::contains("LOCKSTEP_LAUNCH is not set"));
  CHECK_THROWS_WITH(find_world(both, "mpi"), tests::contains("unknown"));
}

TEST_CASE("the run id is the same on all ranks and differs between runs", "[bootstrap]") {
  const auto run_id = [](const Map& variables) { return find_world(environment(variables)).run_id; };
  const std::string id = run_id(torchrun);
  CHECK(id == run_id(torchrun + Map{{"RANK", "2"}, {"LOCAL_RANK", "0"}}));
  CHECK(id != run_id(torchrun + Map{{"TORCHELASTIC_RUN_ID", "other"}}));
  CHECK(id != run_id(torchrun + Map{{"MASTER_PORT", "29501"}}));
  const auto at = [&](const char* address) { return run_id(torchrun + Map{{"MASTER_ADDR", address}}); };
  CHECK(at("fe80::1%eth0") == at("fe80::1%ens3"));  // each host has its own name for it
  CHECK(at("fe80::1%eth0") != at("fe80::2%eth0"));
  CHECK(run_id(slurm) != run_id(slurm + Map{{"SLURM_STEP_ID", "1"}}));
  CHECK(run_id(openmpi) != run_id(openmpi + Map{{"PMIX_NAMESPACE", "2"}}));
  // mpirun in another container may have the same namespace, and by ssh MASTER_ADDR is rank 0's alone.
  CHECK(run_id(openmpi) != run_id(openmpi + Map{{"OMPI_MCA_orte_precondition_transports", "1-2"}}));
  CHECK(run_id(openmpi) == run_id(openmpi + Map{{"MASTER_ADDR", "h"}, {"MASTER_PORT", "99"}}));
  CHECK(run_id({}) != run_id({}));
}

TEST_CASE("a restart is told from the first start, on the ranks that all hear of it", "[bootstrap]") {
  const auto restart = [](const Map& variables) { return find_world(environment(variables)).restart; };
  CHECK(restart(slurm) == 0);
  CHECK(restart(slurm + Map{{"SLURM_RESTART_COUNT", "3"}}) == 3);
  const Map again{{"TORCHELASTIC_RESTART_COUNT", "2"}};
  CHECK(restart(five + again) == 2);
  CHECK(restart(torchrun + again) == 0);  // agents of several nodes count for themselves
}

TEST_CASE("examine tells every source's finding", "[bootstrap]") {
  const auto findings = examine(environment(torchrun + Map{{"OMPI_COMM_WORLD_SIZE", "2"}}));
  REQUIRE(findings.size() == 6);
  CHECK(findings[0].source == "launch");
  CHECK_FALSE(findings[0].world);
  CHECK(findings[1].world);
  CHECK(findings[2].broken);
  CHECK(findings[2].reason == "OMPI_COMM_WORLD_RANK is not set");
  CHECK_FALSE(findings[3].broken);
  CHECK(findings[3].source == "pmix");
  CHECK(findings[3].reason == "PMIX_RANK is not set");
  CHECK(findings[4].source == "slurm");
  CHECK(findings[5].source == "alone");
}

TEST_CASE("LOCKSTEP_LAUNCH is read back as written", "[bootstrap]") {
  const LaunchInfo info{"fe80::1", 29500, 123456789012345, 120};
  CHECK(to_string(info) == "fe80::1:29500,123456789012345,120");
  CHECK(parse_launch_info(to_string(info)) == info);
  for (const char* bad : {"", ",", ",,", "a:1", "a:1,2", "a,2,3", ":1,2,3", "a:0,2,3", "a:65536,2,3",
                          "a:1,2,x", "a:1,-2,3", "a:1,2,-3", "a:1,2,3 ", "a:1,2,3,4x"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_launch_info(bad));
  }
}
