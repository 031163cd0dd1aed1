#include "runtime/machine/session.h"

#include <unistd.h>

#include <string>

#include "comm/make_communicator.h"
#include "comm/world/environment.h"
#include "comm/world/world.h"
#include "kernels/base/host.h"
#include "kernels/base/log.h"
#include "runtime/machine/open_device.h"

namespace lockstep::runtime {
namespace {

/// In steps of 10 ms.
std::int64_t process_start_ns() {
  const auto ticks = start_ticks("self");
  return ticks ? *ticks * (1'000'000'000 / ::sysconf(_SC_CLK_TCK)) : boottime_ns();
}

}  // namespace

Session open_session(const Options& options) {
  const comm::Environment environment = comm::process_environment();
  Session session{.world = comm::find_world(environment, options.world)};
  set_up_log(session.world.rank, session.world.size);
  if (const std::string advice = binding_advice(session.world); session.is_rank0() && !advice.empty()) {
    log::warn(advice);
  }
  session.start_boottime_ns = process_start_ns();
  if (const auto text = environment(comm::launch_variable); text && session.world.master_port_is_ours) {
    if (const auto launch = comm::parse_launch_info(*text)) {
      session.start_boottime_ns = launch->start_boottime_ns;
      session.launch_columns = launch->columns;
    }
  }
  session.cores = usable_cores(session.world);
  session.device = open_device(options, session.world);
  bind_near(session.device->bus_id());
  session.communicator = comm::make_communicator(session.world,
                                                 {.timeout = Seconds(options.timeout),
                                                  .backend = options.backend,
                                                  .interface = options.interface,
                                                  .first_port = options.first_port,
                                                  .last_port = options.last_port,
                                                  .token_file = options.token_file,
                                                  .insecure = options.insecure,
                                                  .encrypt_data = options.data_security == "tls",
                                                  .run_dir = options.run_dir,
                                                  .node = environment("LOCKSTEP_NODE").value_or(""),
                                                  .gpu_sharing = may_share_gpus(environment)},
                                                 *session.device);
  session.communicator->watch(
      {.position =
           [activity = session.activity.get()] {
             const std::string work = activity->describe();
             return work.empty() ? std::string("setting up") : "setting up: " + work;
           },
       .progress = [activity = session.activity.get()] { return activity->advances(); },
       .overdue = {}});
  return session;
}

}  // namespace lockstep::runtime
