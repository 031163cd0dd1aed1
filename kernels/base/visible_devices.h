#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Entries of a CUDA_VISIBLE_DEVICES list ("0,2", "GPU-8a1f...", "MIG-5c2b...") up to the first that is no
/// device: CUDA ignores the list from there on.
std::vector<std::string> visible_devices(std::string_view list);

/// Whether an entry is a part of a divided GPU. CUDA shows a process the first of these alone.
bool is_mig(std::string_view entry);

/// How many devices such a list gives to processes that each see what they are given, where /dev has `gpus`
/// whole ones.
int count_visible(std::string_view list, int gpus);

}  // namespace lockstep
