#pragma once

#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/world/environment.h"
#include "comm/world/world.h"

namespace lockstep::comm {

/// One function per source: the World that its variables describe, or the reason why the source does not
/// apply. UsageError when the variables are malformed, incomplete or contradictory.
Finding examine_launch(const Environment& environment);
Finding examine_torchrun(const Environment& environment);
Finding examine_openmpi(const Environment& environment);
Finding examine_pmix(const Environment& environment);
Finding examine_slurm(const Environment& environment);
Finding examine_alone(const Environment& environment);

/// The variable that suggests that this process is one of several ranks although no source was found; "" when
/// there is none.
std::string hint_at_more_ranks(const Environment& environment);

inline constexpr int most_ranks = 1 << 20;

/// mpirun sets this variable for each rank; PMIx's and Slurm's variables beside it are those of its daemons.
inline bool started_by_mpirun(const Variables& variables) {
  return variables.has("OMPI_COMM_WORLD_RANK");
}

/// Whether srun has started this process as the only task of its step.
bool is_step_of_one(const Variables& variables);

/// Where a source does without them; set and empty they are as good as not set.
inline std::optional<std::string> master_addr(const Variables& variables) {
  auto text = variables.text("MASTER_ADDR");
  return text && !text->empty() ? text : std::nullopt;
}
inline int master_port(const Variables& variables) {
  return variables.text_or("MASTER_PORT", "").empty() ? 0
                                                      : variables.required_number("MASTER_PORT", 1, 65535);
}

/// How often a launcher says that it has started the run again; 0 when it says nothing.
inline int restart_count(const Variables& variables, const char* name) {
  return variables.number(name, 0, std::numeric_limits<int>::max()).value_or(0);
}

/// 16 hex digits from the world's source, the named variables (job and step, as far as set) and the master's
/// address and port.
std::string make_run_id(const World& world, const Environment& environment,
                        std::initializer_list<const char*> job_variables);

/// SLURM_STEP_TASKS_PER_NODE: `2(x2),1` is {2, 2, 1}: tasks on each node of a step. Nothing when malformed.
std::optional<std::vector<int>> expand_tasks_per_node(std::string_view text);

/// SLURM_STEP_NODELIST: `gpu[01-03,7],login` is {gpu01, gpu02, gpu03, gpu7, login}. Nothing when malformed.
std::optional<std::vector<std::string>> expand_node_list(std::string_view text);

}  // namespace lockstep::comm
