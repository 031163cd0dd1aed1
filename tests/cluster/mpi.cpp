#include <sys/stat.h>

#include "kernels/base/cores.h"
#include "tests/cluster/mpirun.h"
#include "tests/support/skip.h"

namespace lockstep::tests {
namespace {

struct Outcome {
  int code = 0;
  std::string output;
};

Outcome run(const Words& words) {
  Program program(words);
  const int code = program.wait_for_end();
  return {code, program.output()};
}

Outcome play(int ranks, const std::string& scenario) {
  return run(mpirun_words(ranks, {MPI_RANK_PROGRAM, scenario}));
}

nlohmann::json train_under_mpirun(int ranks, const std::string& backend,
                                  const std::filesystem::path& run_dir) {
  const Words options{"--model=convnet",       "--dataset=synthetic", "--samples=480",
                      "--image-shape=3x12x12", "--threads=1",         "--seed=7",
                      "--optimizer=sgd",       "--lr=0.05",           "--epochs=1",
                      "--eval-every=1",        "--global-batch=36",   "--first-bucket-mb=0.01",
                      "--bucket-cap-mb=0.01"};
  const Outcome outcome =
      run(mpirun_words(ranks, Words{TRAINER_PROGRAM} + options +
                                  Words{"--backend=" + backend, "--run-dir=" + run_dir.string()}));
  INFO(outcome.output);
  REQUIRE(outcome.code == 0);
  return nlohmann::json::parse(contents(run_dir / "summary.json"));
}

TEST_CASE("under mpirun ranks learn the same by MPI and by shared memory") {
  const int ranks = GENERATE(2, 4);
  const TemporaryFolder folder;
  const auto by_mpi = train_under_mpirun(ranks, "mpi", folder.path() / "mpi");
  const auto by_host = train_under_mpirun(ranks, "host", folder.path() / "host");
  CHECK(by_mpi["backend"] == "mpi");
  CHECK(by_host["backend"] == "host");
  CHECK(by_mpi["world_size"] == ranks);
  // The same terms summed in another order: relative error about 1e-6 a step, grown over 14 steps.
  CHECK(by_mpi["final_loss"].get<double>() == Approx(by_host["final_loss"].get<double>()).epsilon(1e-3));
  CHECK(by_mpi["eval"]["loss"].get<double>() == Approx(by_host["eval"]["loss"].get<double>()).epsilon(1e-3));
  if (ranks == 2) CHECK(by_mpi["weights_sha256"] == by_host["weights_sha256"]);  // two terms have one sum
  const auto again = train_under_mpirun(ranks, "mpi", folder.path() / "again");
  CHECK(again["weights_sha256"] == by_mpi["weights_sha256"]);
}

TEST_CASE("all collectives, all number types") {
  const Outcome outcome = play(3, "collectives");
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.output, contains("passed\npassed\npassed\n"));
}

TEST_CASE("tests/unit/comm/conformance.cpp passes by MPI", "[.conformance]") {
  const int ranks = GENERATE(1, 2, 3, 4, 5);
  const Outcome outcome = play(ranks, "conformance");
  INFO(outcome.output);
  CHECK(outcome.code == 0);
}

TEST_CASE("a rendezvous by MPI, once in a process") {
  const Outcome outcome = play(3, "rendezvous");
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.output, contains("passed\npassed\npassed\n"));
}

TEST_CASE("a rank that does not come ends all, and the collective is named") {
  const Outcome outcome = play(2, "timeout");
  CHECK(outcome.code == 5);
  CHECK_THAT(outcome.output, contains("all-reduce 1 (bucket 3, fc.weight) was not done within --timeout"));
}

TEST_CASE("a rank that does not come to MPI_Init ends all, and the call is named") {
  const TemporaryFolder folder;
  REQUIRE(mkfifo((folder / "held").c_str(), 0600) == 0);
  const std::string wait = "[ $OMPI_COMM_WORLD_RANK = 0 ] || read line <" + (folder / "held").string();
  const Outcome outcome =
      run(mpirun_words(2, {"/bin/sh", "-c", wait + "; exec \"$0\" \"$@\"", MPI_RANK_PROGRAM, "no-finalize"}));
  INFO(outcome.output);
  CHECK(outcome.code == 5);
  CHECK_THAT(outcome.output, contains("MPI_Init was not done within 1 s"));
}

TEST_CASE("where one rank alone has MASTER_ADDR and a secret, it and the other say so") {
  const bool is_other_first = GENERATE(false, true);  // whose time is over first
  const TemporaryFolder folder;
  const auto rank = [&](const Words& variables, bool is_first) {
    const Words trainer{TRAINER_PROGRAM, "--model=mlp", "--dataset=synthetic", "--samples=64",
                        "--run-dir=" + (folder / "run").string()};
    return Words{"/usr/bin/env"} + variables + trainer + Words{is_first ? "--timeout=2" : "--timeout=15"};
  };
  const Words with_address{"LOCKSTEP_NODE=a", "MASTER_ADDR=localhost", "LOCKSTEP_TOKEN=secret-of-this-test"};
  const Outcome outcome = run(mpirun_words(1, rank(with_address, !is_other_first)) + Words{":", "-np", "1"} +
                              rank({"LOCKSTEP_NODE=b"}, is_other_first));
  INFO(outcome.output);
  CHECK(outcome.code != 0);
  CHECK_THAT(outcome.output, contains(is_other_first ? "MPI_Init was not done within "
                                                     : "rank 1 of 2 did not join the rendezvous in time"));
  CHECK_THAT(outcome.output, contains("(mpirun -x MASTER_ADDR -x LOCKSTEP_TOKEN), or to none"));
}

TEST_CASE("a rank that does not come to MPI_Finalize ends all, and the call is named") {
  const Outcome outcome = play(2, "no-finalize");
  INFO(outcome.output);
  CHECK(outcome.code == 5);
  CHECK_THAT(outcome.output, contains("MPI_Finalize was not done within 1 s"));
}

TEST_CASE("a rank that fails ends all with its own exit code") {
  const Outcome outcome = play(2, "failure");
  CHECK(outcome.code == 3);
  CHECK_THAT(outcome.output, contains("file x, offset 3: damaged\n"));
}

TEST_CASE("an abort ends all with its reason") {
  const Outcome outcome = play(2, "abort");
  CHECK(outcome.code == 5);
  CHECK_THAT(outcome.output,
             contains("all ranks end: enough") && contains("enough; this rank was in barrier 1\n"));
  CHECK(outcome.output.find("passed") == std::string::npos);
}

TEST_CASE("MPI's world must be ours") {
  const Outcome outcome = play(2, "other-world");
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.output, contains("of 2, but openmpi says rank") && contains("of 3: start the ranks"));
}

TEST_CASE("--backend mpi without MPI's own launcher says how to start") {
  const Words trainer{TRAINER_PROGRAM, "--model=mlp", "--dataset=synthetic", "--backend=mpi"};
  const Words torchrun{"/usr/bin/env", "RANK=0",        "WORLD_SIZE=2",
                       "LOCAL_RANK=0", "MASTER_ADDR=h", "MASTER_PORT=9"};
  const Words srun{"/usr/bin/env",   "SLURM_PROCID=0",  "SLURM_NTASKS=2",  "SLURM_LOCALID=0",
                   "SLURM_NODEID=0", "SLURM_JOB_ID=77", "SLURM_STEP_ID=0", "SLURM_STEP_TASKS_PER_NODE=2"};
  const Outcome under_torchrun = run(torchrun + trainer);
  CHECK(under_torchrun.code == 2);
  CHECK_THAT(under_torchrun.output, contains("not started by mpirun or srun --mpi=pmix"));
  const Outcome under_srun = run(srun + trainer);
  CHECK(under_srun.code == 2);
  CHECK_THAT(under_srun.output, contains("use srun --mpi=pmix, or --backend host"));
}

TEST_CASE("nothing of MPI is linked to trainer") {
  const Outcome outcome = run({"/usr/bin/ldd", TRAINER_PROGRAM});
  CHECK(outcome.code == 0);
  CHECK(outcome.output.find("libmpi") == std::string::npos);
}

TEST_CASE("a rank that mpirun bound to one core says so, with the hint") {
  if (group_by_core(affinity_mask()).size() < 2) return skip("this machine has one core");
  Words words = mpirun_words(2, {TRAINER_PROGRAM, "devices"});
  for (std::string& word : words) {
    if (word == "none") word = "core";
  }
  const Outcome bound = run(words);
  CHECK(bound.code == 0);
  CHECK_THAT(bound.output, contains("bound this rank to one core") && contains("--bind-to none"));
  CHECK_THAT(bound.output, contains("taken: openmpi, rank 1 of 2"));
  const Outcome free = run(mpirun_words(2, {TRAINER_PROGRAM, "devices"}));
  CHECK(free.output.find("bound this rank") == std::string::npos);
}

}  // namespace
}  // namespace lockstep::tests
