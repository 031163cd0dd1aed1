#include "runtime/options/option_readers.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace lockstep::runtime {
namespace {

/// How ranks meet: of all commands that have several.
constexpr std::array meeting{"backend",    "timeout",  "world",         "interface", "port-range",
                             "token-file", "insecure", "data-security", "run-dir"};

std::vector<std::string> with_meeting(std::vector<std::string> others) {
  others.insert(others.end(), meeting.begin(), meeting.end());
  return others;
}

/// Of those that score samples.
OptionReader scoring(std::string name, std::vector<std::string> more) {
  more.insert(more.end(), {"seed", "eval-samples", "progress", "quiet"});
  return {.name = std::move(name),
          .groups = {"model", "data", "device"},
          .left_out = {"init-from", "accumulate-steps", "data-device", "drop-last", "no-shuffle", "transform",
                       "benchmark", "recompute", "detect-anomaly", "cuda-graph"},
          .others = with_meeting(std::move(more))};
}

bool is_among(const auto& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

bool OptionReader::reads(const OptionInfo& option) const {
  return is_among(others, option.name) ||
         (is_among(groups, option.group) && !is_among(left_out, option.name));
}

const OptionReader& training_options() {
  static const OptionReader reader{
      .name = "trainer train and plan",
      .groups = {"model", "data", "training", "device", "exchange", "state", "output"},
      .left_out = {"output"}};
  return reader;
}

const OptionReader& eval_options() {
  static const OptionReader reader = scoring("trainer eval", {});
  return reader;
}

const OptionReader& predict_options() {
  static const OptionReader reader = scoring("trainer predict", {"output"});
  return reader;
}

const OptionReader& prompt_options() {
  static const OptionReader reader{
      .name = "trainer predict --prompt",
      .groups = {"model", "generation"},
      .left_out = {"init-from"},
      .others = with_meeting({"dataset", "data-dir", "target-file", "tokenizer", "seq-len", "vocab-size",
                              "batch-size", "global-batch", "samples", "seed", "device", "threads",
                              "matmul-precision", "conv-precision", "sync-launch", "progress", "quiet"})};
  return reader;
}

const OptionReader& devices_options() {
  static const OptionReader reader{.name = "trainer devices",
                                   .groups = {},
                                   .left_out = {},
                                   .others = {"device", "threads", "world", "sync-launch"}};
  return reader;
}

const OptionReader& list_options() {
  static const OptionReader reader{
      .name = "trainer models and datasets", .groups = {}, .left_out = {}, .others = {"plugin"}};
  return reader;
}

OptionReader options_of_program(const std::vector<std::string>& reads) {
  OptionReader reader = training_options();
  reader.name = "this program";
  reader.why = ", which has its own model and data";
  for (const char* name :
       {"plugin", "model", "model-args", "dataset", "data-dir", "download", "samples", "image-shape",
        "num-classes", "seq-len", "vocab-size", "transform", "eval-transform", "corrupt-samples", "windows",
        "token-dtype", "tokenizer", "target-file"}) {
    reader.left_out.emplace_back(name);
  }
  reader.others = reads;
  return reader;
}

std::string others_that_read(const OptionInfo& option) {
  std::vector<std::string> names;
  for (const OptionReader* reader :
       {&training_options(), &eval_options(), &predict_options(), &prompt_options()}) {
    if (reader->reads(option)) names.push_back(reader->name);
  }
  return names.empty() ? std::string() : fmt::format(", only by {}", fmt::join(names, ", "));
}

}  // namespace lockstep::runtime
