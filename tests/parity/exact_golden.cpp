#include "tests/parity/exact_golden.h"

#include <algorithm>
#include <cmath>

#include "tests/parity/golden.h"
#include "tests/parity/model_run.h"
#include "tests/support/catch.h"

namespace lockstep::parity {
namespace {

using nlohmann::json;

/// A gradient by its name, as PyTorch computed it in double. `own`: how far rounding alone takes PyTorch's.
struct GoldenGradient {
  std::string name;
  std::size_t elements;
  Digest digest;
  double own;
};

std::vector<GoldenGradient> gradients_of(const json& golden) {
  std::vector<GoldenGradient> gradients;
  for (const json& parameter : golden.at("parameters")) {
    const auto elements = static_cast<std::size_t>(parameter.get<InputSpec>().shape.elements());
    gradients.push_back(
        {parameter.at("name"), elements, parameter.get<Digest>(), parameter.at("own").get<double>()});
  }
  return gradients;
}

void check_gradients(const json& golden, const SafetensorsFile& file, double least) {
  const auto gradients = gradients_of(golden);
  CHECK(file.tensors().size() == gradients.size() + 1);  // and the loss
  double largest = 0;
  for (const GoldenGradient& wanted : gradients) largest = std::max(largest, wanted.digest.norm);
  for (const GoldenGradient& wanted : gradients) {
    const auto values = floats_of(file, wanted.name);
    REQUIRE(values.size() == wanted.elements);
    const double apart = distance(digest(values), wanted.digest, wanted.elements);
    const double error = apart / (wanted.digest.norm + 1e-4 * largest);
    INFO(wanted.name << ": norm " << wanted.digest.norm << ", apart " << apart << ", PyTorch's own "
                     << wanted.own);
    CHECK(error <= std::max(least, 3 * wanted.own));
  }
}

}  // namespace

void check_first_step(const json& golden, double least) {
  const ModelRun run(golden);
  run.train("--optimizer sgd --max-steps 1 --eval-every 0 --dump-gradients gradients.safetensors");
  const SafetensorsFile file(run.at("gradients.safetensors"));
  const double loss = golden.at("training").at("losses").at(0);
  CHECK(std::abs(floats_of(file, "loss")[0] - loss) <= 1e-4 * loss);
  check_gradients(golden, file, least);
}

void check_losses(const json& golden, double least) {
  const json& training = golden.at("training");
  const ModelRun run(golden);
  run.train("--optimizer sgd --lr " + training.at("lr").dump() +
            " --max-steps 20 --eval-every 0 --log-every 1");
  const auto losses = run.losses();
  REQUIRE(losses.size() == training.at("losses").size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const double wanted = training.at("losses").at(i);
    INFO("step " << i + 1 << ": " << losses[i] << ", PyTorch's " << wanted);
    CHECK(std::abs(losses[i] - wanted) <= std::max(3 * training.at("own").get<double>(), least * wanted));
  }
}

}  // namespace lockstep::parity
