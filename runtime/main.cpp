#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "runtime/commands/commands.h"

namespace {

constexpr const char* spins_variable = "GOMP_SPINCOUNT";

bool are_spins_chosen() {
  return std::getenv(spins_variable) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr;
}

bool is_without_team() {
  const char* threads = std::getenv("OMP_NUM_THREADS");
  return threads != nullptr && threads == std::string_view("1");
}

bool is_started_by_a_loader() {
  return getauxval(AT_BASE) == 0;  // as `ld.so trainer`: the kernel has started ld.so alone
}

/// Threads of GNU's OpenMP (libgomp) that wait for their team look 300,000 times, for 6 ms and more, before
/// they sleep: beside other processes each then holds the core that the one it waits for needs. This starts
/// the program anew with 3,000 (GOMP_SPINCOUNT, which libgomp reads before main; tests/bench/busy has the
/// times), unless the user has chosen, or there is no team. Where it cannot be started anew it goes on as it
/// is. valgrind follows with --trace-children=yes.
void restart_with_few_spins(char* const* arguments) {
  if (are_spins_chosen() || is_without_team() || is_started_by_a_loader()) return;
  // By its own name, which the process keeps: /proc/self/exe would make it "exe".
  std::error_code unreadable;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  if (unreadable || ::setenv(spins_variable, "3000", 0) != 0) return;
  ::execv(program.c_str(), arguments);
}

}  // namespace

int main(int argc, char** argv) {
  restart_with_few_spins(argv);
  return lockstep::runtime::trainer_main(argc, argv);
}
