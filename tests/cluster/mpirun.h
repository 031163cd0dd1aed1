#pragma once

#include <cstdlib>

#include "tests/support/training.h"

namespace lockstep::tests {

/// `mpirun -np ranks`, whatever this machine's cores, user and container are.
inline Words mpirun_words(int ranks, const Words& command) {
  for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) setenv(name, "1", 1);
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
  return Words{MPIRUN, "--oversubscribe", "--bind-to", "none", "-np", std::to_string(ranks)} + command;
}

}  // namespace lockstep::tests
