#include "comm/world/sources.h"
#include "comm/world/world.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/unit/comm/variables.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::tests_of_world;

namespace {

/// The shell that `salloc -N2 --ntasks-per-node=4` gives on the first node, where it is a step of its own.
const Map salloc_shell{{"SLURM_JOB_ID", "77"},         {"SLURM_JOB_NUM_NODES", "2"},
                       {"SLURM_NTASKS_PER_NODE", "4"}, {"SLURM_STEP_ID", "4294967290"},
                       {"SLURM_PROCID", "0"},          {"SLURM_LOCALID", "0"},
                       {"SLURM_NODEID", "0"},          {"SLURM_STEP_NODELIST", "gpu01"},
                       {"SLURM_STEP_NUM_TASKS", "1"},  {"SLURM_STEP_TASKS_PER_NODE", "1"}};

World world_from(const Map& variables) {
  return find_world(environment(variables));
}

}  // namespace

TEST_CASE("salloc's own shell is no task: launch and torchrun start ranks in it, trainer alone is told",
          "[bootstrap]") {
  const Map tasks = GENERATE(Map{}, Map{{"SLURM_NTASKS", "8"}});
  CHECK(world_from(salloc_shell + tasks + launch).source == "launch");
  CHECK(world_from(salloc_shell + tasks + torchrun).source == "torchrun");
  CHECK_THROWS_WITH(world_from(salloc_shell + tasks), tests::contains("start the tasks with srun"));
  const Map one{{"SLURM_NTASKS", "1"}, {"SLURM_NTASKS_PER_NODE", "1"}, {"SLURM_JOB_NUM_NODES", "1"}};
  CHECK(world_from(salloc_shell + one).source == "alone");
}

TEST_CASE("a batch script for several tasks without srun is told", "[bootstrap]") {
  const Map shell{{"SLURM_JOB_ID", "77"}, {"SLURM_PROCID", "0"}};
  CHECK_THROWS_WITH(world_from(shell + Map{{"SLURM_NTASKS_PER_NODE", "4"}}),
                    tests::contains("SLURM_NTASKS_PER_NODE=4: start"));
  CHECK_THROWS_WITH(world_from(shell + Map{{"SLURM_JOB_NUM_NODES", "2"}}),
                    tests::contains("SLURM_JOB_NUM_NODES=2: start"));
  CHECK(world_from(shell + Map{{"SLURM_JOB_NUM_NODES", "1"}}).source == "alone");
}

TEST_CASE("a step counts its own tasks, not the job's", "[bootstrap]") {
  CHECK(world_from(slurm + Map{{"SLURM_STEP_NUM_TASKS", "5"}, {"SLURM_NTASKS", "8"}}).size == 5);
  const Map one{{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}};
  CHECK(world_from(slurm + one + Map{{"SLURM_JOB_NUM_NODES", "3"}}).source == "alone");
}

TEST_CASE("tasks in an order of the user's own: which node has the first is not known", "[bootstrap]") {
  CHECK(world_from(slurm).master_addr == "gpu01");
  CHECK(world_from(slurm + Map{{"MASTER_ADDR", ""}, {"MASTER_PORT", ""}}).master_addr == "gpu01");
  const Map arbitrary{{"SLURM_DISTRIBUTION", "arbitrary"}};
  CHECK(world_from(slurm + arbitrary).master_addr.empty());
  CHECK(world_from(slurm + arbitrary + Map{{"MASTER_ADDR", "gpu03"}}).master_addr == "gpu03");
}

TEST_CASE("a script that sets the five variables from Slurm's: the nodes are Slurm's", "[bootstrap]") {
  const Map from_slurm{
      {"RANK", "3"}, {"WORLD_SIZE", "5"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "9"}};
  const World world = world_from(slurm + from_slurm);
  CHECK(world.source == "torchrun");
  CHECK(world.local_size == 2);
  CHECK(world.node_rank == 1);
  CHECK(world.node_count == 3);
  CHECK_THROWS_WITH(world_from(slurm + from_slurm + Map{{"RANK", "4"}}),
                    tests::contains("set LOCAL_WORLD_SIZE"));
}

TEST_CASE("torchrun on each node of a step may count the nodes in another order", "[bootstrap]") {
  const Map first_task{{"SLURM_NTASKS", "2"},
                       {"SLURM_PROCID", "0"},
                       {"SLURM_LOCALID", "0"},
                       {"SLURM_NODEID", "0"},
                       {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}};
  CHECK(world_from(torchrun + slurm + first_task).node_rank == 1);
}

TEST_CASE("what is wrong with one source's variables names the way out", "[bootstrap]") {
  CHECK_THROWS_WITH(
      world_from(torchrun + slurm + Map{{"SLURM_NODEID", "x"}}),
      "SLURM_NODEID=x is no number from 0 to 2; --world NAME goes by another source than slurm");
}

TEST_CASE("Slurm's lists expand", "[bootstrap]") {
  using Names = std::vector<std::string>;
  CHECK(expand_tasks_per_node("4") == std::vector<int>{4});
  CHECK(expand_tasks_per_node("2(x2),1") == std::vector<int>{2, 2, 1});
  for (const char* bad : {"", "0", "2(x0)", "2(x2", "x", "2,", "2(x99999999)"})
    CHECK_FALSE(expand_tasks_per_node(bad));
  CHECK(expand_node_list("hostA") == Names{"hostA"});
  CHECK(expand_node_list("gpu[01-03,7],login") == Names{"gpu01", "gpu02", "gpu03", "gpu7", "login"});
  CHECK(expand_node_list("r1n[9-11]-ib") == Names{"r1n9-ib", "r1n10-ib", "r1n11-ib"});
  for (const char* bad : {"", "a,", "a[", "a[1", "a]", "a[x]", "a[3-1]", "a[1-999999999]"}) {
    CAPTURE(bad);
    CHECK_FALSE(expand_node_list(bad));
  }
}
