#include <map>
#include <system_error>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/typed_words.h"
#include "runtime/commands/commands.h"
#include "runtime/commands/scaling.h"
#include "runtime/options/words.h"
#include "runtime/output/standard_output.h"

namespace lockstep::runtime {
namespace {

using Command = int (*)(const std::vector<std::string>&);

const std::map<std::string, Command> commands{
    {"train", train_command},   {"eval", eval_command},         {"predict", predict_command},
    {"plan", plan_command},     {"sampler", sampler_command},   {"devices", devices_command},
    {"models", models_command}, {"datasets", datasets_command},
};

void print_help() {
  fmt::print(
      "usage: trainer [train] --model NAME [options]\n"
      "       trainer eval WEIGHTS [options]\n"
      "       trainer predict WEIGHTS [PICTURE|FOLDER ...] [options]\n"
      "       trainer plan|devices|models|datasets [options]\n"
      "       {}\n"
      "       trainer devices [--json] [--require cuda[:N]]   (ends with 4 where that GPU cannot be used)\n"
      "       {}\n"
      "       trainer --version\n"
      "\nWEIGHTS: a run, a checkpoint, or a file; with a run come its model and data.\n"
      "\nTrains a network data-parallel: one process per rank, started by launch, torchrun, mpirun or srun.\n"
      "{}\nAll of these may stand in a file: --config FILE (ini). --deterministic is accepted: every run "
      "is.\n"
      "{}\nExit codes: 0 done, 2 wrong use, 3 bad data, 4 device or environment, 5 a peer was lost,\n"
      "6 a number is not finite, 75 stopped, a checkpoint saved (see README.md).\n",
      sampler_usage, tokenize_usage, options_help(), scaling_help());
}

int run(std::vector<std::string> words) {
  if (asks_for_help(words)) {
    print_help();
    return flush_results(), 0;
  }
  if (asks_for_version(words)) {
    print_version();
    return flush_results(), 0;
  }
  std::string name = "train";
  if (!words.empty() && !words.front().starts_with("-")) {
    name = words.front();
    words.erase(words.begin());
  }
  const auto command = commands.find(name);
  if (command == commands.end()) {
    if (const FieldWord* word = find_word(command_words(), name)) {
      throw UsageError(fmt::format("{}: {}", name, word->hint));
    }
    std::vector<std::string> names;
    for (const auto& [known, unused] : commands) names.push_back(known);
    throw UsageError(unknown_name("command", name, names));
  }
  const int code = command->second(words);
  if (name != "train") flush_results();  // a run that trains may lose text
  return code;
}

}  // namespace

int trainer_main(int argc, const char* const* argv) {
  return run_reporting_errors([&] {
    try {
      return run({argv + 1, argv + argc});
    } catch (const std::system_error& error) {
      name_lost_output(error);
      throw;
    }
  });
}

}  // namespace lockstep::runtime
