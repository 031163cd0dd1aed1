// test_module.cpp before its table was given `answer`.
#include "kernels/base/abi.h"
#include "kernels/base/export.h"

namespace {

struct FormerModule {
  lockstep::AbiIdentity identity;
};

}  // namespace

extern "C" LOCKSTEP_API const FormerModule* lockstep_test_module() {
  static const FormerModule module{.identity = lockstep::abi_identity(lockstep::sizes_of<FormerModule>())};
  return &module;
}
