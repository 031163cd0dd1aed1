#pragma once

#include <string>

#include "comm/net/channel.h"
#include "comm/net/handshake.h"
#include "comm/net/tls_context.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// Why there is no connection.
struct Obstacle {
  std::string text;
  bool is_stranger = false;  ///< who answers has not proved the secret
  bool is_final = false;     ///< a process that knows the secret refuses: another try would end the same
};

/// Connects and proves both ways. An empty Channel, and `obstacle`, when no process answers, the other end
/// refuses, or it is not this run's. No byte behind the handshake has been read.
Channel connect_proved(const std::string& address, int port, const TlsContext& context,
                       const ConnectionRequest& request, Deadline deadline, Obstacle& obstacle);

}  // namespace lockstep::comm
