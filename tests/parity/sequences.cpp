#include "tests/parity/exact_golden.h"
#include "tests/parity/golden.h"
#include "tests/parity/model_run.h"
#include "tests/support/catch.h"

namespace lockstep::parity {

using nlohmann::json;

TEST_CASE("loss and gradients of gpt2 and transformer agree with PyTorch in double") {
  for (const json& golden : load_cases("sequences")) {
    DYNAMIC_SECTION(title(golden)) {
      check_first_step(golden, 1e-5);
    }
  }
}

TEST_CASE("twenty steps of gpt2 and transformer lose as PyTorch's do") {
  for (const json& golden : load_cases("sequences")) {
    DYNAMIC_SECTION(title(golden)) {
      check_losses(golden, 1e-6);
    }
  }
}

}  // namespace lockstep::parity
