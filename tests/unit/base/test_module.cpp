#include "tests/unit/base/test_module.h"
#include "kernels/base/export.h"

extern "C" LOCKSTEP_API const lockstep::tests::TestModule* lockstep_test_module() {
  using namespace lockstep::tests;
  static const TestModule module{.identity = test_module_identity(), .answer = [] { return 42; }};
  return &module;
}
