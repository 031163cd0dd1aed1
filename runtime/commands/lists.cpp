#include <fmt/format.h>

#include "comm/bootstrap/bootstrap.h"
#include "data/datasets.h"
#include "data/sampler.h"
#include "kernels/base/error.h"
#include "runtime/commands/commands.h"
#include "runtime/options/values.h"
#include "runtime/session.h"

namespace lockstep::runtime {

int models_command(const std::vector<std::string>& arguments) {
  parse_options(arguments);
  for (const model::ZooEntry& entry : model::zoo()) fmt::print("{:<12} {}\n", entry.name, entry.what);
  return 0;
}

int datasets_command(const std::vector<std::string>& arguments) {
  parse_options(arguments);
  for (const data::DatasetInfo& info : data::list_datasets()) fmt::print("{:<14} {}\n", info.name, info.what);
  return 0;
}

int devices_command(const std::vector<std::string>& arguments) {
  const Options options = parse_options(arguments);
  const auto environment = comm::process_environment();
  for (const comm::Finding& finding : comm::examine(environment)) {
    fmt::print("{:<9} {}\n", finding.source, finding.reason);
  }
  const comm::World world = comm::find_world(environment, options.world);
  fmt::print("taken: {}, rank {} of {}, local rank {} of {}\n", world.source, world.rank, world.size,
             world.local_rank, world.local_size);
  const auto device = open_device(options, world);
  fmt::print("cpu: {}, {}, {} thread{} of {} usable core{}\n", device->name(), device->instruction_set(),
             device->threads(), device->threads() == 1 ? "" : "s", usable_cores(world),
             usable_cores(world) == 1 ? "" : "s");
  fmt::print("cuda: not built in\n");
  return 0;
}

}  // namespace lockstep::runtime
