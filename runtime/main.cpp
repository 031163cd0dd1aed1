#include "kernels/base/team_spins.h"
#include "runtime/commands/commands.h"

int main(int argc, char** argv) {
  lockstep::restart_with_few_spins(argv);
  return lockstep::runtime::trainer_main(argc, argv);
}
