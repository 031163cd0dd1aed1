// What nemesis tells the hook in the processes of a run (hook.cpp), by variables.
#pragma once

#include <string_view>

namespace lockstep::nemesis {

/// "rank 3" or "launch 0" (by its host): whose calls are counted.
inline constexpr const char* process_variable = "NEMESIS_PROCESS";
/// One of the hook's kinds: open, write, ..., send, recv, futex, or the gates forward and backward.
inline constexpr const char* call_variable = "NEMESIS_CALL";
/// Of calls on files: only of those whose path has this in it.
inline constexpr const char* path_variable = "NEMESIS_PATH";
/// Counting begins behind so many forward passes of the process.
inline constexpr const char* pass_variable = "NEMESIS_PASS";
/// In front of the call of this number, from 1, it happens.
inline constexpr const char* count_variable = "NEMESIS_COUNT";
/// An error that the call gives ("ENOSPC"), "flip" for a write of other bytes, or who is killed, with ';'
/// between: "self", "rank 2", "launch 0", "reaper 1", "host 0".
inline constexpr const char* act_variable = "NEMESIS_ACT";
/// The file that tells what happened: "after 7 passes", then a line "rank 2 pid 123" for each that was
/// killed, or the error. Beside it an empty one, ".trains", is made in front of the first forward pass.
inline constexpr const char* struck_variable = "NEMESIS_STRUCK";
/// Of a process's launch.
inline constexpr const char* host_variable = "NEMESIS_HOST";

inline constexpr std::string_view stop_prefix = "stop ";

/// What `strike` gives for "flip"; errors are above 0.
inline constexpr int flipped = -1;

/// The hook's function that gates call: a plugin looks for it by name.
inline constexpr const char* gate_function = "nemesis_gate";
using GateFunction = void (*)(const char* gate);

}  // namespace lockstep::nemesis
