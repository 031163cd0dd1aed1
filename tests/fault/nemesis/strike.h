#pragma once

#include <string>
#include <string_view>

namespace lockstep::nemesis {

/// Does what `act` says (hook.h), in a process that has made so many forward passes, and notes it in the file
/// `struck`; the error that the call is to give, 0 for none, or `flipped`. Processes of the run are known by
/// `struck` in their environment.
int strike(std::string_view act, std::string_view struck, long passes);

/// Adds it to the file.
void note(const std::string& file, const std::string& line);

}  // namespace lockstep::nemesis
