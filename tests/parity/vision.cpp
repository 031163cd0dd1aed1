#include <cstdlib>

#include "tests/parity/exact_golden.h"
#include "tests/parity/golden.h"
#include "tests/parity/model_run.h"
#include "tests/support/catch.h"

namespace lockstep::parity {
namespace {

using nlohmann::json;

/// Of a MobileNetV3 many gradients are sums that cancel: a bias before a normalisation has a gradient of 0
/// but for rounding.
bool cancels(const json& golden) {
  return golden.at("model").get<std::string>().starts_with("mobilenet");
}

/// Twenty steps of the deeper models take a simulated GPU minutes: there resnet18 stands for all.
bool trains_here(const json& golden) {
  return std::getenv("LOCKSTEP_TEST_DEVICE") == nullptr || golden.at("model") == "resnet18";
}

}  // namespace

TEST_CASE("loss and gradients of torchvision's models agree with PyTorch's in double") {
  for (const json& golden : load_cases("vision")) {
    DYNAMIC_SECTION(title(golden)) {
      check_first_step(golden, cancels(golden) ? 1e-2 : 1e-4);
    }
  }
}

TEST_CASE("twenty steps of torchvision's models lose as PyTorch's do") {
  for (const json& golden : load_cases("vision")) {
    if (!trains_here(golden)) continue;
    DYNAMIC_SECTION(title(golden)) {
      check_losses(golden);
    }
  }
}

}  // namespace lockstep::parity
