// Slurm's variables (https://slurm.schedmd.com/srun.html, "OUTPUT ENVIRONMENT VARIABLES").

#include <fmt/format.h>

#include <numeric>

#include "comm/world/sources.h"
#include "kernels/base/error.h"
#include "kernels/base/number.h"

namespace lockstep::comm {
namespace {

// slurm.h: SLURM_INTERACTIVE_STEP, the shell that salloc gives on the first node.
constexpr const char* interactive_step = "4294967290";

bool is_task_of_srun(const Variables& variables) {
  // The batch shell and salloc have SLURM_NTASKS too, and mpirun's daemons leave a SLURM_PROCID: only srun's
  // tasks know their step's layout.
  return variables.missing({"SLURM_PROCID", "SLURM_STEP_ID", "SLURM_STEP_TASKS_PER_NODE"}).empty() &&
         variables.text("SLURM_STEP_ID") != interactive_step;
}

/// Of the step: with `srun --preserve-env` SLURM_NTASKS stays the job's.
const char* name_of_size(const Variables& variables) {
  return variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
}

std::vector<int> tasks_per_node(const Variables& variables, int size) {
  const std::string text = variables.text_or("SLURM_STEP_TASKS_PER_NODE", "");
  const auto tasks = expand_tasks_per_node(text);
  if (!tasks || std::accumulate(tasks->begin(), tasks->end(), 0) != size) {
    throw UsageError(fmt::format("SLURM_STEP_TASKS_PER_NODE={} does not add up to {}={}", text,
                                 name_of_size(variables), size));
  }
  return *tasks;
}

std::string master_address(const Variables& variables, int node_count) {
  if (const auto given = master_addr(variables)) return *given;
  if (node_count == 1) return World{}.master_addr;
  // Slurm sorts the nodes' list, and here task 0 may be on any of them.
  if (variables.text("SLURM_DISTRIBUTION") == "arbitrary") return {};
  const std::string text = variables.text_or("SLURM_STEP_NODELIST", "");
  const auto nodes = expand_node_list(text);
  if (!nodes) throw UsageError(fmt::format("SLURM_STEP_NODELIST={} is no list of nodes", text));
  return nodes->front();
}

// More than any cluster has: a malformed list must not fill the memory.
constexpr int most_nodes = 1 << 16;

/// Cuts at the commas that are not in brackets.
std::vector<std::string_view> split_outside_brackets(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') ++depth;
    if (text[i] == ']') --depth;
    if (text[i] != ',' || depth != 0) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

/// Appends `prefix` + each number of a range such as `01-03` (or of the single `7`) + `suffix`.
bool append_range(std::string_view prefix, std::string_view range, std::string_view suffix,
                  std::vector<std::string>& names) {
  const auto dash = range.find('-');
  const std::string_view first_text = range.substr(0, dash);
  const std::string_view last_text = dash == std::string_view::npos ? first_text : range.substr(dash + 1);
  const auto first = parse_number<int>(first_text);
  const auto last = parse_number<int>(last_text);
  if (!first || !last || *first < 0 || *last < *first) return false;
  if (*last - *first >= most_nodes - static_cast<int>(names.size())) return false;
  for (int number = *first; number <= *last; ++number) {
    names.push_back(fmt::format("{}{:0{}}{}", prefix, number, first_text.size(), suffix));
  }
  return true;
}

bool append_names(std::string_view part, std::vector<std::string>& names) {
  const auto open = part.find('[');
  if (open == std::string_view::npos) {
    names.emplace_back(part);
    return !part.empty() && part.find(']') == std::string_view::npos;
  }
  const auto close = part.find(']', open);
  if (close == std::string_view::npos || part.find('[', close) != std::string_view::npos) return false;
  for (const std::string_view range : split_outside_brackets(part.substr(open + 1, close - open - 1))) {
    if (!append_range(part.substr(0, open), range, part.substr(close + 1), names)) return false;
  }
  return true;
}

}  // namespace

bool is_step_of_one(const Variables& variables) {
  return is_task_of_srun(variables) && variables.text(name_of_size(variables)) == "1";
}

Finding examine_slurm(const Environment& environment) {
  const Variables variables(environment);
  if (!is_task_of_srun(variables)) return {"slurm", {}, "not a task of srun"};
  if (started_by_mpirun(variables))
    return {"slurm", {}, "mpirun started this process; its daemons are the tasks"};
  World world;
  world.source = "slurm";
  world.size = variables.required_number(name_of_size(variables), 1, most_ranks);
  if (world.size == 1) return {"slurm", {}, "a step of one task"};
  world.rank = variables.required_number("SLURM_PROCID", 0, world.size - 1);
  const std::vector<int> tasks = tasks_per_node(variables, world.size);
  world.node_count = static_cast<int>(tasks.size());
  world.node_rank = variables.required_number("SLURM_NODEID", 0, world.node_count - 1);
  world.local_size = tasks[static_cast<std::size_t>(world.node_rank)];
  world.local_rank = variables.required_number("SLURM_LOCALID", 0, world.local_size - 1);
  world.master_addr = master_address(variables, world.node_count);
  world.master_port = master_port(variables);
  world.run_id = make_run_id(world, environment, {"SLURM_JOB_ID", "SLURM_STEP_ID"});
  world.restart = restart_count(variables, "SLURM_RESTART_COUNT");
  return {"slurm", world, "a task of srun"};
}

std::optional<std::vector<int>> expand_tasks_per_node(std::string_view text) {
  std::vector<int> tasks;
  for (const std::string_view part : split_outside_brackets(text)) {
    const auto open = part.find("(x");
    const auto count = parse_number<int>(part.substr(0, open));
    int repeat = 1;
    if (open != std::string_view::npos) {
      if (part.back() != ')') return std::nullopt;
      repeat = parse_number<int>(part.substr(open + 2, part.size() - open - 3)).value_or(0);
    }
    if (!count || *count < 1 || repeat < 1) return std::nullopt;
    if (repeat > most_nodes - static_cast<int>(tasks.size())) return std::nullopt;
    tasks.insert(tasks.end(), static_cast<std::size_t>(repeat), *count);
  }
  return tasks;
}

std::optional<std::vector<std::string>> expand_node_list(std::string_view text) {
  std::vector<std::string> names;
  for (const std::string_view part : split_outside_brackets(text)) {
    if (!append_names(part, names)) return std::nullopt;
  }
  return names;
}

}  // namespace lockstep::comm
