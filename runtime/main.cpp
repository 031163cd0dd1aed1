#include "runtime/commands/commands.h"

int main(int argc, char** argv) {
  return lockstep::runtime::trainer_main(argc, argv);
}
