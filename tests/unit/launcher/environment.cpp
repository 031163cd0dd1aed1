#include "launcher/environment.h"

#include <algorithm>

#include "tests/support/catch.h"

namespace lockstep::launcher {
namespace {

const Job three_ranks = {.master_addr = "10.0.0.1",
                         .master_port = 4321,
                         .run_id = "id",
                         .role = "trainer",
                         .local_size = 3,
                         .threads = 2,
                         .start_ns = 123456789,
                         .terminal_columns = 80};

bool has(const std::vector<std::string>& variables, const std::string& variable) {
  return std::ranges::count(variables, variable) == 1;
}

TEST_CASE("Lockstep's own workers are told where, since when and how wide") {
  CHECK(has(worker_environment({}, three_ranks, 0, "/tmp/e.json"),
            "LOCKSTEP_LAUNCH=10.0.0.1:4321,123456789,80"));
}

TEST_CASE("a worker gets torchrun's variables over what was inherited") {
  const auto variables =
      worker_environment({"HOME=/root", "RANK=7", "MASTER_PORT=1"}, three_ranks, 1, "/tmp/e.json");
  for (const char* variable :
       {"HOME=/root", "RANK=1", "LOCAL_RANK=1", "ROLE_RANK=1", "GROUP_RANK=0", "WORLD_SIZE=3",
        "LOCAL_WORLD_SIZE=3", "ROLE_WORLD_SIZE=3", "GROUP_WORLD_SIZE=1", "ROLE_NAME=trainer",
        "MASTER_ADDR=10.0.0.1", "MASTER_PORT=4321", "TORCHELASTIC_RESTART_COUNT=0",
        "TORCHELASTIC_MAX_RESTARTS=0", "TORCHELASTIC_RUN_ID=id", "TORCHELASTIC_USE_AGENT_STORE=False",
        "TORCHELASTIC_ERROR_FILE=/tmp/e.json", "OMP_NUM_THREADS=2",
        "LOCKSTEP_LAUNCH=10.0.0.1:4321,123456789,80"}) {
    INFO(variable);
    CHECK(has(variables, variable));
  }
  CHECK_FALSE(has(variables, "RANK=7"));
  CHECK_FALSE(has(variables, "MASTER_PORT=1"));
}

TEST_CASE("ranks are told which start of theirs it is, and how many there may be") {
  Job again = three_ranks;
  again.restart = 2;
  again.max_restarts = 3;
  const auto variables = worker_environment({}, again, 0, "/tmp/e.json");
  CHECK(has(variables, "TORCHELASTIC_RESTART_COUNT=2"));
  CHECK(has(variables, "TORCHELASTIC_MAX_RESTARTS=3"));
}

TEST_CASE("ranks count over all nodes") {
  Job second = three_ranks;
  second.node_rank = 1;
  second.node_count = 2;
  const auto variables = worker_environment({}, second, 2, "/tmp/e.json");
  for (const char* variable : {"RANK=5", "LOCAL_RANK=2", "ROLE_RANK=5", "GROUP_RANK=1", "WORLD_SIZE=6",
                               "LOCAL_WORLD_SIZE=3", "ROLE_WORLD_SIZE=6", "GROUP_WORLD_SIZE=2"}) {
    INFO(variable);
    CHECK(has(variables, variable));
  }
}

TEST_CASE("the run's secret: launch's own unless the user has one") {
  Job with_token = three_ranks;
  with_token.token = "made";
  CHECK(has(worker_environment({}, with_token, 0, "/tmp/e.json"), "LOCKSTEP_TOKEN=made"));
  const auto given = worker_environment({"LOCKSTEP_TOKEN=mine"}, with_token, 0, "/tmp/e.json");
  CHECK(has(given, "LOCKSTEP_TOKEN=mine"));
  CHECK_FALSE(has(given, "LOCKSTEP_TOKEN=made"));
  for (const std::string& variable : worker_environment({}, three_ranks, 0, "/tmp/e.json")) {
    CHECK_FALSE(variable.starts_with("LOCKSTEP_TOKEN"));
  }
}

TEST_CASE("the user's own thread count stays") {
  const auto variables = worker_environment({"OMP_NUM_THREADS=9"}, three_ranks, 0, "/tmp/e.json");
  CHECK(has(variables, "OMP_NUM_THREADS=9"));
  CHECK_FALSE(has(variables, "OMP_NUM_THREADS=2"));
  const auto of_empty = worker_environment({"OMP_NUM_THREADS="}, three_ranks, 0, "/tmp/e.json");
  CHECK(has(of_empty, "OMP_NUM_THREADS=2"));
  CHECK_FALSE(has(of_empty, "OMP_NUM_THREADS="));
}

Job job_of(int ranks, int gpus, bool allow_gpu_sharing) {
  Job job;
  job.local_size = ranks;
  job.gpus = gpus;
  job.allow_gpu_sharing = allow_gpu_sharing;
  return job;
}

TEST_CASE("NCCL is made to take ranks that must share GPUs for hosts of their own") {
  Job job = job_of(4, 2, true);
  job.node_rank = 1;
  job.node_count = 2;
  CHECK(gpu_variables(job, 3, "") == Variables{{"LOCKSTEP_GPU_SHARING", "1"}, {"NCCL_HOSTID", "rank7"}});
  CHECK(shared_gpu_defaults(job).at("NCCL_NET") == "Socket");
  CHECK_FALSE(shared_gpu_defaults(job).contains("NCCL_SOCKET_IFNAME"));
  CHECK(shared_gpu_defaults(job_of(4, 2, true)).at("NCCL_SOCKET_IFNAME") == "lo");
}

TEST_CASE("NCCL is left alone where no ranks must share, or may") {
  CHECK(gpu_variables(job_of(4, 4, true), 1, "") == Variables{{"LOCKSTEP_GPU_SHARING", "1"}});
  CHECK(gpu_variables(job_of(4, 2, false), 1, "").empty());
  CHECK(shared_gpu_defaults(job_of(4, 4, true)).empty());
  CHECK(shared_gpu_defaults(job_of(4, 2, false)).empty());
}

TEST_CASE("the user's own settings of NCCL stay, but for what tells the ranks apart") {
  const auto variables =
      worker_environment({"NCCL_NET=IB", "NCCL_HOSTID=mine"}, job_of(2, 1, true), 1, "/tmp/e.json");
  CHECK(has(variables, "NCCL_NET=IB"));
  CHECK_FALSE(has(variables, "NCCL_NET=Socket"));
  CHECK(has(variables, "NCCL_HOSTID=rank1"));
  CHECK_FALSE(has(variables, "NCCL_HOSTID=mine"));
  CHECK(has(variables, "NCCL_P2P_DISABLE=1"));
}

TEST_CASE("parts of divided GPUs are dealt out; whole ones stay visible to all") {
  const auto visible = [](int rank, const std::string& list) {
    const Variables variables = gpu_variables(job_of(3, 3, false), rank, list);
    return variables.contains("CUDA_VISIBLE_DEVICES") ? variables.at("CUDA_VISIBLE_DEVICES") : "";
  };
  CHECK(visible(1, "MIG-a,MIG-b,MIG-c") == "MIG-b");
  CHECK(visible(2, "MIG-a,MIG-b") == "MIG-a");
  CHECK(visible(0, "MIG-a").empty());
  CHECK(visible(1, "GPU-a,GPU-b").empty());
  CHECK(visible(1, "0,1").empty());
  CHECK(visible(1, "").empty());
  const auto variables =
      worker_environment({"CUDA_VISIBLE_DEVICES=MIG-a,MIG-b"}, job_of(2, 2, false), 1, "/tmp/e.json");
  CHECK(has(variables, "CUDA_VISIBLE_DEVICES=MIG-b"));
  CHECK_FALSE(has(variables, "CUDA_VISIBLE_DEVICES=MIG-a,MIG-b"));
}

}  // namespace
}  // namespace lockstep::launcher
