#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>

#include "kernels/base/error.h"
#include "kernels/cuda/library.h"
#include "kernels/plan_store.h"
#include "model/zoo/zoo.h"
#include "runtime/performance/gpu_profile.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/skip.h"
#include "tests/vendor/answers.h"

using namespace lockstep;
using namespace lockstep::vendor;

namespace {

struct Profile {
  std::string name;
  std::string json;
};

/// Those that `trainer plan --for` knows.
std::vector<Profile> profiles() {
  std::vector<Profile> found;
  for (const std::string& name : runtime::gpu_names())
    found.push_back({name, runtime::find_gpu(name).description});
  return found;
}

/// As kernels/cuda/dnn.h limits plans: one that takes more was taken because cuDNN has none within it, which
/// is true of no convolution here. cuDNN 9.19 takes 161 MiB at most.
constexpr std::size_t most_workspace_bytes = std::size_t{1} << 30;

Answers ask_all(const Profile& gpu) {
  const auto device = kernels::make_described_cuda_device(gpu.json);
  Answers answers;
  for (const Arithmetic& arithmetic : arithmetics) {
    if (arithmetic.amp == "bf16" && !device->has_bf16()) continue;
    ask_for_odd_shapes(*device, arithmetic, answers);
    for (const std::string& model : model::model_names(model::zoo())) {
      INFO(gpu.name << ", " << model << ", " << arithmetic.name);
      CHECK_NOTHROW(ask_for_model(*device, model, arithmetic, answers));
    }
  }
  return answers;
}

void check(const Profile& gpu, const std::string& question, const Answer& answer) {
  INFO(gpu.name << ": " << question << "\n  " << answer.plan << " "
                << fmt::format("{}", fmt::join(answer.notes, " ")));
  CHECK_FALSE(answer.has("NONDETERMINISTIC"));
  CHECK_FALSE(answer.has("DOWN_CONVERT_INPUTS"));
  CHECK_FALSE(answer.has("REDUCED_PRECISION_REDUCTION"));
  if (question.ends_with("ieee")) {
    CHECK_FALSE(answer.has("TENSOR_CORE"));
    CHECK_FALSE(answer.has("WINOGRAD"));
    CHECK_FALSE(answer.has("FFT"));
  }
  CHECK(answer.workspace_bytes <= most_workspace_bytes);
}

struct TextsInMemory final : kernels::PlanStore {
  std::optional<std::string> find(const std::string& key) const override {
    const auto text = kept.find(key);
    if (text == kept.end()) return std::nullopt;
    ++found;
    return text->second;
  }
  void keep(const std::string& key, const std::string& plan) const override {
    kept[key] = plan;
    ++keeps;
  }

  mutable std::map<std::string, std::string> kept;
  mutable std::size_t found = 0;
  mutable std::size_t keeps = 0;
};

using AnswersByGpu = std::map<std::string, Answers>;

/// A question, and below it each answer with the GPUs that give it.
std::string golden_text(const AnswersByGpu& all) {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> by_question;
  for (const auto& [gpu, answers] : all) {
    for (const auto& [question, answer] : answers) {
      const std::string text =
          fmt::format("{} {} {} {}", answer.engine(), answer.layout, answer.workspace_bytes,
                      answer.notes.empty() ? "-" : fmt::format("{}", fmt::join(answer.notes, ",")));
      by_question[question][text].push_back(gpu);
    }
  }
  std::string text;
  for (const auto& [question, answers] : by_question) {
    text += question + "\n";
    for (const auto& [answer, gpus] : answers)
      text += fmt::format("  {}: {}\n", fmt::join(gpus, " "), answer);
  }
  return text;
}

/// The first lines in which they differ.
std::string difference(const std::string& golden, const std::string& now) {
  std::istringstream wanted(golden);
  std::istringstream given(now);
  std::string question;
  std::string a;
  std::string b;
  for (;;) {
    const bool more = static_cast<bool>(std::getline(wanted, a));
    if (!std::getline(given, b)) b = "(end)";
    if (!more) a = "(end)";
    if (a != b) return fmt::format("of {}\n  golden {}\n  now    {}", question, a, b);
    if (!more) return {};
    if (!a.starts_with(" ")) question = a;
  }
}

/// "cuDNN 9.19.0" of what the device says of itself.
std::string library_of(const kernels::Device& device) {
  const std::string text = device.instruction_set();
  return text.substr(text.find("cuDNN "));
}

void compare_with_golden(const std::string& library, const std::string& text) {
  const std::string name = fmt::format("cudnn-{}.txt", library.substr(library.find(' ') + 1));
  const std::filesystem::path golden = std::filesystem::path(VENDOR_GOLDENS) / name;
  const std::filesystem::path now = std::filesystem::path(VENDOR_OUTPUT) / name;
  tests::write_file(now, text);
  if (!std::filesystem::exists(golden)) {
    return tests::skip(
        fmt::format("no golden file for {}: copy {} to {}", library, now.string(), golden.string()));
  }
  const std::string wanted = tests::contents(golden);
  INFO("if the change is meant, copy " << now << " to " << golden);
  INFO(difference(wanted, text));
  const bool same = wanted == text;
  CHECK(same);
}

}  // namespace

TEST_CASE("cuDNN has a deterministic plan for every convolution on every GPU, the one of the golden file") {
  AnswersByGpu all;
  std::size_t questions = 0;
  const std::vector<Profile> gpus = profiles();
  for (const Profile& gpu : gpus) {
    const Answers& answers = all[gpu.name] = ask_all(gpu);
    questions += answers.size();
    for (const auto& [question, answer] : answers) check(gpu, question, answer);
  }
  const std::string library = library_of(*kernels::make_described_cuda_device(gpus.front().json));
  fmt::print("{} answers of {} for {} GPUs\n", questions, library, gpus.size());
  CHECK(gpus.size() == 10);
  compare_with_golden(library, golden_text(all));
}

TEST_CASE("cuDNN takes back the text of a plan, and refuses one that is damaged or another's") {
  const Profile gpu = profiles().front();
  TextsInMemory texts;
  const auto ask = [&](std::shared_ptr<const kernels::PlanStore> store) {
    const auto device = kernels::make_described_cuda_device(gpu.json);
    device->keep_plans_in(std::move(store));
    Answers answers;
    ask_for_odd_shapes(*device, arithmetics.front(), answers);
    return answers;
  };
  const auto as_store = [&] {
    return std::shared_ptr<const kernels::PlanStore>(std::shared_ptr<void>(), &texts);
  };
  const std::string built = golden_text({{gpu.name, ask(as_store())}});
  const std::size_t plans = texts.kept.size();
  REQUIRE(plans > 10);
  CHECK(texts.found == 0);
  CHECK(golden_text({{gpu.name, ask(as_store())}}) == built);
  CHECK(texts.found == plans);
  CHECK(texts.keeps == plans);  // none is kept twice: those that were found were taken

  for (auto& [key, text] : texts.kept) text[text.size() / 2] ^= 1;
  CHECK(golden_text({{gpu.name, ask(as_store())}}) == built);
  CHECK(texts.keeps == 2 * plans);
  const std::string first = texts.kept.begin()->second;
  for (auto& [key, text] : texts.kept) text = first;
  CHECK(golden_text({{gpu.name, ask(as_store())}}) == built);
  CHECK(texts.keeps > 2 * plans);
}

TEST_CASE("a GPU that is described by something else is refused") {
  CHECK_THROWS_AS(kernels::make_described_cuda_device("{}"), UsageError);
  CHECK_THROWS_AS(kernels::make_described_cuda_device("a GPU"), UsageError);
}

TEST_CASE("on a GPU that is only described nothing is allocated or launched") {
  const Profile gpu = profiles().front();
  const auto device = kernels::make_described_cuda_device(gpu.json);
  CHECK_THROWS_WITH(device->allocate(64), tests::contains("only described"));
  CHECK_THROWS_WITH(device->make_stream(), tests::contains("only described"));
}
