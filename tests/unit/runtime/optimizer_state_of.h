#pragma once

#include <vector>

#include "comm/solo_communicator.h"
#include "runtime/weights/parameter_io.h"

namespace lockstep::runtime::testing {

/// Of a replica alone.
inline std::vector<NamedTensor> optimizer_state_of(const ParameterIO& replica) {
  comm::SoloCommunicator alone(comm::World{});
  std::vector<NamedTensor> tensors;
  replica.optimizer_state(alone, &tensors);
  return tensors;
}

}  // namespace lockstep::runtime::testing
