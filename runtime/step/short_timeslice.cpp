#include "runtime/step/short_timeslice.h"

#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace lockstep::runtime {

void request_short_timeslice() {
  constexpr std::uint64_t least_ns = 100'000;  // the kernel takes none below
  sched_attr wish{};
  wish.size = sizeof(wish);
  wish.sched_runtime = least_ns;
  syscall(SYS_sched_setattr, 0, &wish, 0);
}

}  // namespace lockstep::runtime
