#include "data/sampler.h"

#include <array>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/number.h"
#include "runtime/commands/commands.h"
#include "runtime/commands/own_options.h"

namespace lockstep::runtime {
namespace {

namespace po = boost::program_options;

struct SamplerRequest {
  data::DistributedSampler sampler;
  std::int64_t epoch = 0;
};

struct Number {
  const char* name;
  const char* otherwise;  ///< null: must be given
  Range<std::int64_t> range;
};

constexpr std::array numbers{Number{"samples", nullptr, {1, std::int64_t{1} << 33}},
                             Number{"ranks", "1", {1, 1 << 20}}, Number{"rank", "0", {0, 1 << 20}},
                             Number{"seed", "0", {0, std::numeric_limits<std::int64_t>::max()}},
                             Number{"epoch", "0", {0, 1'000'000'000}}};

po::variables_map given_words(const std::vector<std::string>& arguments) {
  po::options_description description;
  description.add_options()("no-shuffle", po::bool_switch())("drop-last", po::bool_switch());
  for (const Number& number : numbers) {
    auto* value = po::value<std::string>();
    description.add_options()(number.name, number.otherwise == nullptr
                                               ? value->required()
                                               : value->default_value(number.otherwise));
  }
  return parse_own_options(arguments, description, sampler_usage);
}

SamplerRequest parse(const std::vector<std::string>& arguments) {
  const po::variables_map given = given_words(arguments);
  std::map<std::string, std::int64_t> values;
  for (const Number& number : numbers) {
    try {
      values[number.name] = number_in(given[number.name].as<std::string>(), number.range);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("--{}: {}", number.name, error.what()));
    }
  }
  if (values["rank"] >= values["ranks"]) {
    throw UsageError(fmt::format("--rank {} of --ranks {}: from 0", values["rank"], values["ranks"]));
  }
  return {.sampler = {.samples = values["samples"],
                      .replicas = static_cast<int>(values["ranks"]),
                      .rank = static_cast<int>(values["rank"]),
                      .shuffle = !given["no-shuffle"].as<bool>(),
                      .seed = static_cast<std::uint64_t>(values["seed"]),
                      .drop_last = given["drop-last"].as<bool>()},
          .epoch = values["epoch"]};
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
