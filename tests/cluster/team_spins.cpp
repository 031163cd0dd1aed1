// How long threads wait for their team before they sleep, as OpenMP itself tells it when a rank starts.
#include "tests/support/training.h"

namespace lockstep::tests {
namespace {

const char* const libgomps = "300000";

/// Of the program that the rank became.
std::string spins_of(const Words& environment, const Words& program) {
  const Words cleared{"/usr/bin/env",           "-u", "GOMP_SPINCOUNT", "-u", "OMP_WAIT_POLICY",
                      "OMP_DISPLAY_ENV=verbose"};
  Program rank(cleared + environment + program);
  REQUIRE(rank.wait_for_end() == 0);
  const std::string name = "GOMP_SPINCOUNT = '";
  const auto at = rank.output().rfind(name);
  REQUIRE(at != std::string::npos);
  const auto begin = at + name.size();
  return rank.output().substr(begin, rank.output().find('\'', begin) - begin);
}

TEST_CASE("threads that wait for their team sleep soon, unless the user has chosen") {
  const Words trainer{TRAINER_PROGRAM, "--version"};
  CHECK(spins_of({"OMP_NUM_THREADS=2"}, trainer) == "3000");
  CHECK(spins_of({"OMP_NUM_THREADS=2"}, Words{LAUNCH_PROGRAM, "--nproc_per_node=1"} + trainer) == "3000");
  CHECK(spins_of({"GOMP_SPINCOUNT=7"}, trainer) == "7");
  CHECK(spins_of({"OMP_WAIT_POLICY=passive"}, trainer) == "0");
  CHECK(spins_of({"OMP_NUM_THREADS=1"}, trainer) == libgomps);
  // Its /proc/self/exe is not the trainer.
  CHECK(spins_of({"OMP_NUM_THREADS=2"}, Words{"/lib64/ld-linux-x86-64.so.2"} + trainer) == libgomps);
}

}  // namespace
}  // namespace lockstep::tests
