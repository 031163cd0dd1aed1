#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "comm/make_communicator.h"
#include "comm/net/credentials.h"
#include "comm/rendezvous/meeting_file.h"
#include "comm/store/client.h"
#include "comm/store/server.h"
#include "comm/world/world.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// What a rank has after the rendezvous of several nodes.
struct Rendezvous {
  std::unique_ptr<MeetingFile> meeting_file;  ///< rank 0 with --run-dir: goes at the end
  std::unique_ptr<StoreServer> server;        ///< rank 0 only
  std::string address;                        ///< of the store, as this rank reached it
  int port = 0;
  StoreClient store;                 ///< has claimed this rank's place as "rank <r> (pid <p> on <host>)"
  Credentials credentials;           ///< of the store
  std::uint64_t incarnation = 0;     ///< drawn by rank 0, for data connections
  std::string own_address;           ///< of this machine, on the interface in use: for data sockets
  std::shared_ptr<void> keep_alive;  ///< for the caller: what must last as long, such as MPI
};

/// Collective: what rank 0 gives, on all ranks. It is called at most once, and not where all ranks were given
/// the secret and the address, so it may start what it needs by then. Empty: there is none.
using Broadcast = std::function<std::string(std::string_view)>;

/// Brings the ranks of several nodes to the store, which rank 0 opens. The secret: see given_secret. When
/// that or rank 0's address is not given, rank 0 passes both on by `broadcast`, else by RUN/meeting
/// (--run-dir), which needs a disk that all nodes see. A start of the run that has failed or comes to its end
/// is passed by until the next one's store is there. UsageError when there is no such way, when this rank
/// runs already, and when rank 0 counts other ranks; CommError when rank 0 is not found by the deadline.
Rendezvous open_rendezvous(const World& world, const CommOptions& options, Deadline deadline,
                           const Broadcast& broadcast = {});

}  // namespace lockstep::comm
