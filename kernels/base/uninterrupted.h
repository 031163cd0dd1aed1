#pragma once

#include <cerrno>

namespace lockstep {

/// What `call` of the system gives, made again as often as a signal interrupts it: disks of networks let
/// signals interrupt opening, locking and flushing, too.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace lockstep
