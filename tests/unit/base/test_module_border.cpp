// test_module.cpp before its table was given `answer`.
#include "kernels/base/abi.h"

namespace {

struct FormerModule {
  lockstep::AbiIdentity identity;
};

}  // namespace

extern "C" const FormerModule* lockstep_test_module() {
  static const FormerModule module{.identity = lockstep::abi_identity(lockstep::sizes_of<FormerModule>())};
  return &module;
}
