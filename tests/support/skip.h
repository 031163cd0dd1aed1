#pragma once

#include <string>

namespace lockstep::tests {

/// Says that this machine cannot run a test, which returns then. With LOCKSTEP_MUST_RUN=1, as in CI, the test
/// fails instead, unless tests/may_skip.txt lists the reason.
void skip(const std::string& reason);

/// Whether a skip for this reason is a failure.
bool must_run(const std::string& reason);

}  // namespace lockstep::tests
