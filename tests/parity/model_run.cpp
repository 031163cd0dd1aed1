#include "tests/parity/model_run.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/parity/golden.h"
#include "tests/parity/model_files.h"
#include "tests/support/catch.h"

namespace lockstep::parity {
namespace {

using nlohmann::json;

std::string device() {
  const char* name = std::getenv("LOCKSTEP_TEST_DEVICE");
  return name == nullptr ? "cpu" : name;
}

/// Beside this program, wherever both have been brought.
std::string trainer() {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename("trainer").string();
}

std::string model_args(const json& golden) {
  if (!golden.contains("arguments")) return {};
  std::string text;
  for (const auto& [name, value] : golden.at("arguments").items()) {
    text += (text.empty() ? " --model-args " : ",") + name + "=" +
            (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

}  // namespace

ModelRun::ModelRun(const json& golden) : golden_(golden) {
  write_formula_weights(folder_ / "weights.safetensors", golden);
  write_formula_batch(folder_ / "batch.safetensors", golden);
}

void ModelRun::train(const std::string& options) const {
  const std::string command =
      "cd '" + folder_.path().string() + "' && '" + trainer() + "' --device " + device() +
      " --threads 1 --quiet --matmul-precision " + std::string(name_of(precision_under_test())) +
      " --conv-precision " + std::string(conv_name_of(precision_under_test())) + " --model " +
      golden_.at("model").get<std::string>() + model_args(golden_) +
      " --dataset tensors --data-dir batch.safetensors --init-from weights.safetensors --batch-size " +
      golden_.at("batch").dump() + " --run-dir run " + options;
  INFO(command);
  REQUIRE(std::system(command.c_str()) == 0);
}

std::vector<double> ModelRun::losses() const {
  std::vector<double> result;
  std::ifstream log(at("run/log.jsonl"));
  for (std::string line; std::getline(log, line);) {
    const json entry = json::parse(line);
    if (entry.contains("step") && entry.contains("loss")) result.push_back(entry.at("loss"));
  }
  return result;
}

json ModelRun::summary() const {
  std::ifstream file(at("run/summary.json"));
  return json::parse(file);
}

std::span<const float> floats_of(const SafetensorsFile& file, const std::string& name) {
  const auto* tensor = file.find(name);
  INFO("tensor " << name);
  REQUIRE(tensor != nullptr);
  return {reinterpret_cast<const float*>(tensor->bytes.data()), tensor->bytes.size() / sizeof(float)};
}

std::string title(const json& golden) {
  return golden.at("name").get<std::string>() + ", batch " + golden.at("batch").dump();
}

}  // namespace lockstep::parity
