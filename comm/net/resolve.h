#pragma once

#include <netdb.h>

#include <memory>
#include <string>

#include "kernels/base/deadline.h"

namespace lockstep::comm {

struct FreeAddressList {
  void operator()(addrinfo* list) const noexcept { freeaddrinfo(list); }
};

/// The addresses that a name has, or why it has none.
struct Resolution {
  std::unique_ptr<addrinfo, FreeAddressList> list;
  std::string problem;
};

/// TCP addresses of a host name or of a numeric IPv4 or IPv6 address. Ends by the deadline however long the
/// name servers stay silent.
Resolution resolve(const std::string& address, int port, Deadline deadline);

}  // namespace lockstep::comm
