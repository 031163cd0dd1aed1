#pragma once

#include <filesystem>
#include <string>

#include "kernels/base/hash.h"
#include "tests/support/training.h"

namespace lockstep::tests {

/// state.json of a run's newest checkpoint.
inline nlohmann::json state_in(const std::filesystem::path& run_dir) {
  return nlohmann::json::parse(contents(run_dir / "checkpoints/latest/state.json"));
}

/// As if the run had been saved with this state.
inline void replace_state(const std::filesystem::path& run_dir, const nlohmann::json& state) {
  const auto checkpoint = run_dir / "checkpoints/latest";
  const std::string text = state.dump(2);
  write_file(checkpoint / "state.json", text);
  auto manifest = nlohmann::json::parse(contents(checkpoint / "manifest.json"));
  manifest["files"]["state.json"] = {{"bytes", text.size()}, {"sha256", Sha256().update(text).hex()}};
  write_file(checkpoint / "manifest.json", manifest.dump(2));
}

}  // namespace lockstep::tests
