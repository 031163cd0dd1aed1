#pragma once

#include <string>

#include "tests/support/training.h"

namespace lockstep::tests {

/// How a program ended that was refused, and what it said.
struct Refusal {
  int code;
  std::string said;
};

inline Refusal refusal_of(const Words& command) {
  Program program(command);
  const int code = program.wait_for_end();
  return {code, program.output()};
}

/// Of `trainer`, alone.
inline Refusal refusal(const Words& words) {
  return refusal_of(Words{TRAINER_PROGRAM} + words);
}

inline void expect(const Refusal& refused, int code, const std::string& said) {
  INFO(refused.said);
  CHECK(refused.code == code);
  CHECK_THAT(refused.said, contains(said));
}

}  // namespace lockstep::tests
