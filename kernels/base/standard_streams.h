#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace lockstep {

/// Puts /dev/null in the place of standard streams that are closed (`launch >&-`): the next file that opens
/// would get their number, and the text meant for them. To be called before anything opens.
inline void fill_standard_streams() {
  int fd = STDIN_FILENO;
  while (fd >= STDIN_FILENO && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDWR);
  if (fd > STDERR_FILENO) ::close(fd);
}

}  // namespace lockstep
