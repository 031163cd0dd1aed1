#include "comm/net/resolve.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <future>
#include <thread>
#include <utility>

#include "kernels/base/signals_blocked.h"

namespace lockstep::comm {
namespace {

Resolution look_up(const std::string& address, int port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &list);
  Resolution found{std::unique_ptr<addrinfo, FreeAddressList>(list), {}};
  if (error != 0) found.problem = fmt::format("cannot resolve {}: {}", address, gai_strerror(error));
  return found;
}

}  // namespace

Resolution resolve(const std::string& address, int port, Deadline deadline) {
  Resolution numeric = look_up(address, port, AI_NUMERICHOST);
  if (numeric.list) return numeric;
  // getaddrinfo knows no deadline: on a thread of its own it may outlive the call.
  std::packaged_task<Resolution()> task([address, port] { return look_up(address, port, 0); });
  std::future<Resolution> answer = task.get_future();
  {
    const SignalsBlocked scope;
    std::thread(std::move(task)).detach();
  }
  if (answer.wait_until(deadline.when()) == std::future_status::ready) return answer.get();
  return {nullptr, fmt::format("cannot resolve {}: the name servers do not answer", address)};
}

}  // namespace lockstep::comm
