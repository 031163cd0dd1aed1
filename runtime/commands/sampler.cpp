#include "data/sampler.h"

#include <algorithm>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "kernels/base/error.h"
#include "runtime/commands/commands.h"

namespace lockstep::runtime {
namespace {

namespace po = boost::program_options;

struct SamplerRequest {
  data::DistributedSampler sampler;
  std::int64_t epoch = 0;
};

SamplerRequest parse(std::vector<std::string> arguments) {
  for (std::string& argument : arguments) {
    if (argument.starts_with("--")) std::replace(argument.begin(), argument.end(), '_', '-');
  }
  SamplerRequest request;
  data::DistributedSampler& sampler = request.sampler;
  po::options_description description;
  description.add_options()("samples", po::value(&sampler.samples)->required())(
      "ranks", po::value(&sampler.replicas)->default_value(1))(
      "rank", po::value(&sampler.rank)->default_value(0))("seed", po::value(&sampler.seed)->default_value(0))(
      "epoch", po::value(&request.epoch)->default_value(0))("no-shuffle", po::bool_switch())(
      "drop-last", po::bool_switch(&sampler.drop_last));
  constexpr int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  po::variables_map given;
  try {
    po::store(po::command_line_parser(arguments).options(description).style(style).run(), given);
    po::notify(given);
  } catch (const po::error& error) {
    throw UsageError(
        fmt::format("{}; trainer sampler --samples N --ranks R --rank r --seed s --epoch e "
                    "[--no-shuffle] [--drop-last]",
                    error.what()));
  }
  sampler.shuffle = !given["no-shuffle"].as<bool>();
  if (sampler.samples < 1 || sampler.replicas < 1 || sampler.rank < 0 || sampler.rank >= sampler.replicas) {
    throw UsageError(
        fmt::format("--samples {} --ranks {} --rank {}: at least one sample, and a rank below --ranks",
                    sampler.samples, sampler.replicas, sampler.rank));
  }
  return request;
}

}  // namespace

int sampler_command(const std::vector<std::string>& arguments) {
  const SamplerRequest request = parse(arguments);
  std::string lines;
  for (const std::int64_t index : request.sampler.indices(request.epoch)) lines += fmt::format("{}\n", index);
  fmt::print("{}", lines);
  return 0;
}

}  // namespace lockstep::runtime
