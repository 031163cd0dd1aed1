#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "tests/support/training.h"

namespace lockstep::tests {

/// What `trainer`, which must succeed, prints and logs.
inline std::string output_of(int ranks, const Words& words) {
  Program program(trainer_words(ranks, words));
  const int code = program.wait_for_end();
  INFO(program.output());
  REQUIRE(code == 0);
  return program.output();
}

/// The lines that are JSON.
inline std::vector<nlohmann::json> lines_of(const std::string& output) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(output);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with('{')) lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

}  // namespace lockstep::tests
