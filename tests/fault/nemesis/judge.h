#pragma once

#include <string>
#include <vector>

#include "tests/fault/nemesis/job.h"

namespace lockstep::nemesis {

/// What is wrong with a start that was struck; nothing where all is as promised.
std::vector<std::string> faults_of_struck(const Round& round, const Strike& strike, const Job& job,
                                          const Outcome& outcome);

/// What is wrong with a run that has gone on undisturbed to its end, whose weights are to have this hash.
std::vector<std::string> faults_of_end(const Round& round, const Job& job, const Outcome& outcome,
                                       const std::string& hash);

/// The weights_sha256 of a RUN; empty without one.
std::string hash_in(const std::filesystem::path& run);

}  // namespace lockstep::nemesis
