#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/process.h"

namespace lockstep::launcher {

/// Of the environment that its program was started with; empty without it, and when it is gone.
std::string variable_of(pid_t pid, std::string_view name);

/// Whether it ignores the signal; false when it is gone.
bool ignores(pid_t pid, int signal);

/// Whether this process has children, zombies too, beside `known` ones. True as well where /proc does not
/// tell.
bool has_children_beside(const std::set<pid_t>& known);

/// The processes below `root`, parents before their children, without `foreign` ones and what is below those.
/// Zombies only where `root` is to reap them.
std::vector<Process> descendants_of(pid_t root, const std::set<pid_t>& foreign = {});

}  // namespace lockstep::launcher
