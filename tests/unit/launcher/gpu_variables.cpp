#include "launcher/gpu_variables.h"

#include "tests/support/catch.h"

namespace lockstep::launcher {
namespace {

Job job_of(int ranks, int gpus, bool allow_gpu_sharing) {
  Job job;
  job.local_size = ranks;
  job.gpus = gpus;
  job.allow_gpu_sharing = allow_gpu_sharing;
  return job;
}

bool has(const std::vector<std::string>& variables, const std::string& variable) {
  return std::ranges::count(variables, variable) == 1;
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
