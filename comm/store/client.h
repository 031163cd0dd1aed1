#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/store/frame.h"
#include "kernels/base/deadline.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// A connection to the run's store, for one thread at a time. Every call ends by its deadline with a result
/// or a CommError; after an error the connection is closed.
class StoreClient {
 public:
  /// Tries the ports in turn until one proves to be this run's store.
  static StoreClient connect(const std::string& address, const std::vector<int>& ports,
                             const std::string& run_id, Deadline deadline);

  void set(std::string_view key, std::string_view value, Deadline deadline);
  std::optional<std::string> get(std::string_view key, Deadline deadline);
  /// Waits until the key is there.
  std::string wait(std::string_view key, Deadline deadline);
  /// Adds to a decimal number, 0 when absent; the sum.
  std::int64_t add(std::string_view key, std::int64_t amount, Deadline deadline);
  /// Sets `desired` when the value is `expected` (nothing: when the key is absent). True when it did so.
  bool compare_and_set(std::string_view key, std::optional<std::string_view> expected,
                       std::string_view desired, Deadline deadline);
  /// True when the key was there.
  bool erase(std::string_view key, Deadline deadline);

 private:
  StoreClient(UniqueFd socket, std::string name) : socket_(std::move(socket)), name_(std::move(name)) {}

  /// Sends and waits for the reply; CommError when refused.
  Frame ask(const Frame& request, Deadline deadline);
  Frame receive(Deadline deadline);
  void send(const Frame& frame, Deadline deadline);
  [[noreturn]] void fail(const std::string& reason);

  UniqueFd socket_;
  std::string name_;
  FrameReader reader_;
};

}  // namespace lockstep::comm
