#pragma once

#include "kernels/base/abi.h"

namespace lockstep::tests {

struct TestModule {
  AbiIdentity identity;
  int (*answer)();
};

inline AbiIdentity test_module_identity() {
  return abi_identity(sizes_of<TestModule>());
}

}  // namespace lockstep::tests
