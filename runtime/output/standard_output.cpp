#include "runtime/output/standard_output.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::runtime {
namespace {

[[noreturn]] void give_up(int error) {
  throw DeviceError(fmt::format("standard output: cannot write: {}", errno_message(error)));
}

}  // namespace

int try_print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  const int error = errno;
  std::clearerr(stdout);  // or `name_lost_output` would take a later failure of something else for this one
  if (error == EPIPE) ::kill(::getpid(), SIGHUP);
  return error;
}

void print_result(const std::string& line) {
  const int error = try_print(line + "\n");
  if (error != 0 && error != EPIPE) give_up(error);
}

void name_lost_output(const std::system_error& error) {
  if (std::ferror(stdout) != 0) give_up(error.code().value());
}

void flush_results() {
  if (std::fflush(stdout) != 0) give_up(errno);
}

}  // namespace lockstep::runtime
