#include "tests/support/skip.h"

#include <cstdlib>
#include <fstream>
#include <string_view>

#include "tests/support/catch.h"

namespace lockstep::tests {

bool must_run(const std::string& reason) {
  const char* value = std::getenv("LOCKSTEP_MUST_RUN");
  if (value == nullptr || std::string_view(value) != "1") return false;
  std::ifstream list(MAY_SKIP_LIST);
  for (std::string line; std::getline(list, line);) {
    if (line == reason) return false;
  }
  return true;
}

void skip(const std::string& reason) {
  if (must_run(reason)) FAIL("LOCKSTEP_MUST_RUN=1, but skipped: " << reason);
  WARN("skipped: " << reason);
}

}  // namespace lockstep::tests
