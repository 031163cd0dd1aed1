#include <cmath>

#include "kernels/base/safetensors.h"
#include "tests/parity/golden.h"
#include "tests/parity/model_files.h"
#include "tests/parity/model_run.h"
#include "tests/support/catch.h"

namespace lockstep::parity {
namespace {

using nlohmann::json;

/// The case of that name and batch.
json model_case(const json& golden) {
  for (const char* kind : {"models", "recurrent", "sequences"}) {
    for (const json& model : load_cases(kind)) {
      if (model.at("name") == golden.at("name") && model.at("batch") == golden.at("batch")) return model;
    }
  }
  FAIL("no golden of model " << golden.dump());
  return {};
}

/// Gradients of the first step, all in one vector.
std::vector<double> gradients_of(const json& model, const std::string& options) {
  const ModelRun run(model);
  run.train("--optimizer sgd --max-steps 1 --eval-every 0 --dump-gradients gradients.safetensors " + options);
  const SafetensorsFile file(run.at("gradients.safetensors"));
  std::vector<double> all;
  for (const NamedTensor& weight : formula_weights(model)) {
    const auto values = floats_of(file, weight.name);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double apart = 0;
  double norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    apart += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(apart / norm);
}

}  // namespace

/// Twice what autocast costs PyTorch itself: which roundings fall how is luck, and a relu or a maximum that
/// falls on the other side takes its whole gradient with it.
TEST_CASE("gradients in bf16 are as near to those in f32 as PyTorch's") {
  for (const json& golden : load_cases("mixed_precision")) {
    DYNAMIC_SECTION(golden.dump()) {
      const json model = model_case(golden);
      const std::vector<double> exact = gradients_of(model, "");
      const double own = golden.at("distance");
      const double ours = distance(gradients_of(model, "--amp bf16"), exact);
      CHECK(ours <= 2 * own);
      CHECK(ours > own / 100);  // bf16 was not computed in f32
      // Each gradient rounded once more, by 2^-9 of its size at most.
      CHECK(distance(gradients_of(model, "--amp bf16 --grad-dtype bf16"), exact) <= 2 * own + 0x1p-9);
    }
  }
}

}  // namespace lockstep::parity
