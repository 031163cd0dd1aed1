#include <algorithm>
#include <cmath>

#include "kernels/base/safetensors.h"
#include "tests/parity/golden.h"
#include "tests/parity/model_files.h"
#include "tests/parity/model_run.h"
#include "tests/support/catch.h"

namespace lockstep::parity {
namespace {

using nlohmann::json;

/// Compares a tensor that `trainer` wrote with the golden's of the name `wanted`.
void check_tensor(const json& golden, const SafetensorsFile& file, const std::string& name,
                  const std::string& wanted) {
  const auto expected = golden.at("outputs").at(wanted).get<GoldenTensor>();
  // A thousandth off, one unit in a thousand falls on the other side of a relu or maximum, and takes its
  // whole gradient with it: the root of that share of the norm, and twice as much to be safe.
  const double relative_error = products_are_rounded() ? 0x1p-4 : expected.tolerance();
  CHECK(difference(wanted, expected, floats_of(file, name), relative_error) == "");
}

std::string options_text(const std::string& optimizer, const json& options) {
  std::string text = "--optimizer " + optimizer;
  for (const auto& [name, value] : options.items()) text += " --" + name + " " + value.dump();
  return text;
}

/// A step amplifies the rounding of those before it, as it does in PyTorch: eight times what float32 costs
/// there, and at least 1e-5, because the sampler's order of the batch moves every gradient by some ulps. Adam
/// divides a gradient by its own size: one that is all but zero moves its weight by the learning rate
/// whichever way rounding falls, and another version of oneDNN makes it fall otherwise (2e-5 seen after ten
/// steps).
double loss_tolerance(const std::string& optimizer, const json& training) {
  if (products_are_rounded()) return optimizer == "sgd" ? 0x1p-6 : 0x1p-4;
  return std::max(8 * training.at("rounding").get<double>(), optimizer == "sgd" ? 1e-5 : 1e-4);
}

/// `index`: of the step, from 0.
void check_loss(double got, const json& training, std::size_t index, double tolerance) {
  const double wanted = training.at("losses").at(index);
  INFO("step " << index + 1 << ": " << got << ", PyTorch's " << wanted);
  CHECK(std::abs(got - wanted) <= tolerance * wanted);
}

}  // namespace

TEST_CASE("loss and gradients of the first step agree with PyTorch") {
  for (const json& golden : load_cases("models")) {
    DYNAMIC_SECTION(title(golden)) {
      const ModelRun run(golden);
      run.train(
          "--optimizer sgd --lr 0.1 --max-steps 1 --eval-every 0 --dump-gradients gradients.safetensors");
      const SafetensorsFile gradients(run.at("gradients.safetensors"));
      check_tensor(golden, gradients, "loss", "loss");
      const auto weights = formula_weights(golden);
      CHECK(gradients.tensors().size() == weights.size() + 1);
      for (const NamedTensor& weight : weights) {
        check_tensor(golden, gradients, weight.name, "gradient/" + weight.name);
      }
    }
  }
}

TEST_CASE("ten steps of training agree with PyTorch") {
  for (const json& golden : load_cases("models")) {
    for (const auto& [optimizer, training] : golden.at("training").items()) {
      DYNAMIC_SECTION(title(golden) + ", " + optimizer) {
        const ModelRun run(golden);
        run.train(options_text(optimizer, training.at("options")) +
                  " --max-steps 10 --eval-every 0 --log-every 1");
        const auto losses = run.losses();
        REQUIRE(losses.size() == training.at("losses").size());
        const double tolerance = loss_tolerance(optimizer, training);
        for (std::size_t i = 0; i < losses.size(); ++i) check_loss(losses[i], training, i, tolerance);
      }
    }
  }
}

TEST_CASE("evaluation after a step gives the loss of the next") {
  for (const json& golden : load_cases("models")) {
    DYNAMIC_SECTION(title(golden)) {
      const json& training = golden.at("training").at("sgd");
      const ModelRun run(golden);
      run.train(options_text("sgd", training.at("options")) + " --max-steps 1");
      const json evaluation = run.summary().at("eval");
      CHECK(evaluation.at("samples") == golden.at("batch"));
      check_loss(evaluation.at("loss"), training, 1, loss_tolerance("sgd", training));
    }
  }
}

}  // namespace lockstep::parity
