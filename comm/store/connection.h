#pragma once

#include <optional>
#include <string>

#include "comm/store/frame.h"
#include "comm/store/table.h"
#include "kernels/base/deadline.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// One client of the store, as the server sees it. It has one request at a time: the next is read when the
/// reply to the last is sent, so a client cannot make the server collect replies.
class Connection {
 public:
  /// A client must say hello within `hello_time`.
  Connection(UniqueFd socket, const std::string& run_id, Seconds hello_time);

  int fd() const { return socket_.get(); }
  bool is_open() const { return static_cast<bool>(socket_); }
  short wanted_events() const;
  /// When `check_deadlines` has something to do, if ever.
  std::optional<Deadline> next_deadline() const;

  /// Reads, answers and writes as far as it goes without waiting.
  void serve(Table& table);
  /// Answers a `get` that waits, when its key is there now or its time is over.
  void serve_waiting(Table& table);
  /// Closes who said no hello in time.
  void check_hello();

 private:
  void read_requests(Table& table);
  void handle(const Frame& frame, Table& table);
  void greet(const Frame& frame);
  void send(const Frame& frame);
  void flush();
  void close_because(const std::string& reason);

  UniqueFd socket_;
  std::string name_;
  const std::string* run_id_;
  Deadline hello_deadline_;
  bool greeted_ = false;
  FrameReader reader_;
  std::string outgoing_;
  struct Waiting {
    Frame request;
    Deadline deadline;
  };
  std::optional<Waiting> waiting_;
};

}  // namespace lockstep::comm
