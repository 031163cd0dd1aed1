#pragma once

#include <map>
#include <optional>
#include <string>

#include "comm/world/environment.h"

/// What launchers give their processes.
namespace lockstep::comm::tests_of_world {

using Map = std::map<std::string, std::string>;

inline Environment environment(const Map& variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

inline Map operator+(Map left, const Map& right) {
  for (const auto& [name, value] : right) left[name] = value;
  return left;
}

inline Map without(Map variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

inline const Map torchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"GROUP_RANK", "1"},
                          {"GROUP_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "10.0.0.1"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RUN_ID", "none"}};
inline const Map launch = torchrun + Map{{"LOCKSTEP_LAUNCH", "10.0.0.1:29500,123456,80"}};
inline const Map five{
    {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "::1"}, {"MASTER_PORT", "1"}};
inline const Map openmpi{{"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                         {"OMPI_COMM_WORLD_NODE_RANK", "2"},
                         {"PMIX_NAMESPACE", "1749221377"},
                         {"PMIX_RANK", "2"}};
inline const Map slurm{{"SLURM_PROCID", "3"},
                       {"SLURM_NTASKS", "5"},
                       {"SLURM_LOCALID", "1"},
                       {"SLURM_NODEID", "1"},
                       {"SLURM_JOB_ID", "77"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_STEP_NODELIST", "gpu[01-03]"},
                       {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"}};
inline const Map batch_shell{{"SLURM_JOB_ID", "77"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}};

}  // namespace lockstep::comm::tests_of_world
