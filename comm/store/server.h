#pragma once

#include <string>
#include <thread>
#include <vector>

#include "comm/store/connection.h"
#include "comm/store/table.h"
#include "kernels/base/deadline.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// The run's key-value store: listens on the first free one of some ports and serves on a thread of its own,
/// on the host of rank 0. Whoever does not open with this run's hello, or sends what is no frame, is closed
/// and logged.
class StoreServer {
 public:
  /// Port 0 is any free one. Who says no hello within `time_for_hello` is closed. DeviceError when all ports
  /// are taken.
  StoreServer(const std::string& address, const std::vector<int>& ports, std::string run_id,
              Seconds time_for_hello = Seconds(5));
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const { return port_; }

 private:
  void serve();
  int milliseconds_to_next_deadline() const;

  std::string run_id_;
  Seconds time_for_hello_;
  UniqueFd listener_;
  int port_ = 0;
  UniqueFd stop_;
  Table table_;
  std::vector<Connection> connections_;
  std::thread thread_;
};

}  // namespace lockstep::comm
