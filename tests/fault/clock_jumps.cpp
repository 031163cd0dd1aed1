// In LD_PRELOAD of a run: in the process that CLOCK_PROCESS names ("rank 1") the clock of the wall jumps
// by CLOCK_SECONDS when it has been read CLOCK_READS times. The next reading makes the file
// CLOCK_JUMPED.
#include <fcntl.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <string_view>

#include "tests/fault/preloaded.h"

namespace {

using lockstep::tests::number;
using lockstep::tests::setting;

bool is_struck_process() {
  const std::string_view program = program_invocation_short_name;
  return program == "trainer" && setting("CLOCK_PROCESS") == "rank " + std::string(setting("RANK"));
}

/// Seconds to add to a reading.
long jump() {
  static const bool struck = is_struck_process();
  static const long reads_before = number("CLOCK_READS");
  static const long seconds = number("CLOCK_SECONDS");
  static std::atomic<long> reads{0};
  if (!struck) return 0;
  const long read = ++reads;
  if (read == reads_before + 1) close(creat(setting("CLOCK_JUMPED").data(), 0600));
  return read > reads_before ? seconds : 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, struct timespec* now) noexcept {
  static const auto original = NEXT(clock_gettime);
  const int result = original(clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += jump();
  return result;
}

int gettimeofday(struct timeval* now, void* zone) noexcept {
  static const auto original = NEXT(gettimeofday);
  const int result = original(now, zone);
  if (result == 0) now->tv_sec += jump();
  return result;
}

time_t time(time_t* now) noexcept {
  static const auto original = NEXT(time);
  const time_t seconds = original(nullptr) + jump();
  if (now != nullptr) *now = seconds;
  return seconds;
}
}
