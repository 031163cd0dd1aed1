#pragma once

#include <string>
#include <system_error>

namespace lockstep::runtime {

/// Writes to standard output, now. 0 or an errno. A reader that is gone (`| head`: EPIPE) is to a run what a
/// terminal that hung up is: SIGHUP asks it to save and leave.
int try_print(const std::string& text);

/// Prints a line that a command was asked for, as a prediction. DeviceError where standard output takes no
/// more, but for a reader that is gone.
void print_result(const std::string& line);

/// DeviceError where it was standard output that fmt::print could not write to, which its `error` does not
/// say.
void name_lost_output(const std::system_error& error);

/// Writes what a command has printed and is still buffered. DeviceError where it cannot be written: at the
/// end of main nobody would learn that it was lost.
void flush_results();

}  // namespace lockstep::runtime
