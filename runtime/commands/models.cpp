#include <fmt/format.h>

#include "model/model.h"
#include "runtime/commands/commands.h"
#include "runtime/options/option_readers.h"
#include "runtime/plan/print.h"
#include "runtime/plugin/entries.h"
#include "runtime/plugin/load_plugins.h"

namespace lockstep::runtime {
namespace {

std::string describe_flops(double flops) {
  if (flops < 1e6) return fmt::format("{:.0f} FLOP", flops);
  if (flops < 1e9) return fmt::format("{:.1f} MFLOP", flops / 1e6);
  return fmt::format("{:.2f} GFLOP", flops / 1e9);
}

void print_model(const Registry& registry, const model::ZooEntry& entry, const std::string& options_before) {
  const model::InputSpec input = wants_of(registry, entry, {});
  const model::Graph graph = model::build_forward(make_model(registry, entry, {}, input), input, 1);
  fmt::print("{}: {}\n", entry.name, entry.what);
  fmt::print("  {} parameters, forward {} for a sample of {}\n", graph.parameter_elements(),
             describe_flops(flops_of(graph)), input.shape.str());
  for (const model::Argument& argument : entry.arguments) {
    fmt::print("  --model-args {}\n", model::describe(argument));
  }
  fmt::print("  trainer{} --model {} {}\n\n", options_before, entry.name, entry.example);
}

}  // namespace

int models_command(const std::vector<std::string>& arguments) {
  const Options options = parse_options_for(list_options(), arguments);
  const Plugins plugins = load_plugins(options.plugins);
  std::string plugin_options;
  for (const auto& file : options.plugins) plugin_options += " --plugin " + file.string();
  for (const model::ZooEntry& entry : plugins.registry.models()) {
    const bool built_in = model::find_entry(model::zoo(), entry.name) != nullptr;
    print_model(plugins.registry, entry, built_in ? std::string() : plugin_options);
  }
  return 0;
}

}  // namespace lockstep::runtime
