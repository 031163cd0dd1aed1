// Programs that are killed in front of a call on a file (hung_disk.cpp).
#pragma once

#include <filesystem>
#include <string>

#include "tests/support/training.h"

namespace lockstep::tests {

/// `words`, in which the process that makes the `count`th `call` on a file whose path begins so is killed.
inline Words killed_at(const std::string& call, int count, const std::filesystem::path& path,
                       const Words& words) {
  return Words{"/usr/bin/env", "LD_PRELOAD=" HUNG_DISK, "HUNG_CALL=" + call, "HUNG_PATH=" + path.string(),
               "HUNG_KILL=" + std::to_string(count)} +
         words;
}

/// `words` of `launch`, which is killed at that call of a rank, and takes the ranks along.
inline Words killed_whole_at(const std::string& call, int count, const std::filesystem::path& path,
                             const Words& words) {
  return killed_at(call, count, path, Words{"HUNG_VICTIM=parent"} + words);
}

}  // namespace lockstep::tests
