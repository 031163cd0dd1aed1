#include "comm/world/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "comm/world/sources.h"
#include "kernels/base/error.h"
#include "kernels/base/hash.h"

namespace lockstep::comm {
namespace {

using Source = Finding (*)(const Environment&);

struct NamedSource {
  const char* name;
  Source examine;
};

constexpr std::array<NamedSource, 6> sources{{{"launch", examine_launch},
                                              {"torchrun", examine_torchrun},
                                              {"openmpi", examine_openmpi},
                                              {"pmix", examine_pmix},
                                              {"slurm", examine_slurm},
                                              {"alone", examine_alone}}};

std::string describe(const World& world) {
  return fmt::format("{} says rank {} of {}, local rank {} of {}", world.source, world.rank, world.size,
                     world.local_rank, world.local_size);
}

/// A launcher that runs once on each node of an outer job agrees with that job when the job's tasks are the
/// nodes. Which is the first is its own choice: torchrun's c10d sorts them by name.
bool is_node_of(const World& world, const World& outer) {
  return outer.local_size == 1 && outer.size == world.node_count;
}

bool agree(const World& preferred, const World& other) {
  const bool same = preferred.rank == other.rank && preferred.size == other.size &&
                    preferred.local_rank == other.local_rank && preferred.local_size == other.local_size;
  return same || is_node_of(preferred, other);
}

World forced_world(const std::vector<Finding>& findings, const std::string& forced) {
  for (const Finding& finding : findings) {
    if (finding.source != forced) continue;
    if (finding.world) return *finding.world;
    throw UsageError(fmt::format("--world {}: {}", forced, finding.reason));
  }
  throw UsageError(
      fmt::format("--world {}: unknown; use launch, torchrun, openmpi, pmix, slurm or alone", forced));
}

}  // namespace

std::vector<Finding> examine(const Environment& environment) {
  std::vector<Finding> findings;
  for (const NamedSource& source : sources) {
    try {
      findings.push_back(source.examine(environment));
    } catch (const UsageError& error) {
      findings.push_back({.source = source.name, .world = {}, .reason = error.what(), .broken = true});
    }
  }
  return findings;
}

World find_world(const Environment& environment, const std::string& forced) {
  const std::vector<Finding> findings = examine(environment);
  if (!forced.empty()) return forced_world(findings, forced);

  const auto broken = [](const Finding& finding) { return finding.broken; };
  const auto bad = std::find_if(findings.begin(), findings.end(), broken);
  if (bad != findings.end())
    throw UsageError(
        fmt::format("{}; --world NAME goes by another source than {}", bad->reason, bad->source));

  const auto found = [](const Finding& finding) { return finding.world.has_value(); };
  const auto chosen = std::find_if(findings.begin(), findings.end(), found);  // alone is always found
  const World& world = *chosen->world;
  for (auto other = chosen + 1; other != findings.end(); ++other) {
    if (!other->world || other->source == "alone" || agree(world, *other->world)) continue;
    throw UsageError(fmt::format("{}, but {}: choose with --world {} or --world {}", describe(world),
                                 describe(*other->world), world.source, other->source));
  }
  const std::string hint = world.source == "alone" ? hint_at_more_ranks(environment) : "";
  if (!hint.empty()) {
    throw UsageError(
        fmt::format("this process seems to be one of several, but no launcher told which ({}); --world alone "
                    "runs it by itself",
                    hint));
  }
  return world;
}

UsageError second_start(const std::string& run_id, const std::string& first) {
  return UsageError(
      fmt::format("run {} runs already: {}; end that one first, or give this one another --rdzv-id and "
                  "--master-port on all nodes",
                  run_id, first));
}

std::string make_run_id(const World& world, const Environment& environment,
                        std::initializer_list<const char*> job_variables) {
  std::string text = world.source;
  for (const char* name : job_variables) {
    if (const auto value = environment(name)) text += fmt::format("\n{}={}", name, *value);
  }
  // Each host has its own name for the interface of a link-local address.
  const std::string address = world.master_addr.substr(0, world.master_addr.find('%'));
  text += fmt::format("\n{}:{}", address, world.master_port);
  return fmt::format("{:016x}", fnv1a(text));
}

}  // namespace lockstep::comm
