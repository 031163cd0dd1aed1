#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::comm {

/// `2(x2),1` is {2, 2, 1}: tasks on each node of a step. Nothing when malformed.
std::optional<std::vector<int>> expand_tasks_per_node(std::string_view text);

/// `gpu[01-03,7],login` is {gpu01, gpu02, gpu03, gpu7, login}. Nothing when malformed.
std::optional<std::vector<std::string>> expand_node_list(std::string_view text);

}  // namespace lockstep::comm
