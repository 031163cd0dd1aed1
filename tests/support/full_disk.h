#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/program.h"
#include "tests/support/skip.h"

namespace lockstep::tests {

/// Runs a program that finds `folder` to be a full disk: it must leave with 4, and what it says then must be
/// right. Says so when this machine cannot make such a disk.
inline void check_on_full_disk(const std::filesystem::path& folder, const std::vector<std::string>& words,
                               const std::function<bool(const std::string& output)>& is_right) {
  constexpr int wrong_words = 100;
  const int code = on_tiny_disk(folder, [&] {
    Program run(words);
    const int left_with = run.wait_for_end();
    return is_right(run.output()) ? left_with : wrong_words;
  });
  if (code == not_allowed) {
    skip("a mount namespace of one's own needs root");
    return;
  }
  CHECK(code == 4);
}

}  // namespace lockstep::tests
