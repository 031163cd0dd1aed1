// What a client that has proved itself may say to the store, through a socket.
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "comm/net/tcp.h"
#include "comm/store/connection.h"

using namespace lockstep;
using namespace lockstep::comm;

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  spdlog::set_level(spdlog::level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return 0;
  Connection connection(Channel(UniqueFd(ends[0])), "fuzzer");
  UniqueFd client(ends[1]);
  Table table;
  std::string_view said(reinterpret_cast<const char*>(data), size);
  std::string heard;
  send_some(client.get(), said);
  shutdown(client.get(), SHUT_WR);
  while (connection.is_open()) {
    connection.serve(table);
    if (connection.is_open()) connection.serve_waiting(table);
    heard.clear();
    receive_some(client.get(), heard);
  }
  connection.release(table);
  return 0;
}
