#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/net/channel.h"
#include "comm/net/frame.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// What a `get` or `get_each` is for: one key, or those of a text with a number behind it.
struct AskedKeys {
  std::string text;
  bool is_numbered = false;
  std::int64_t first = 0;
  std::int64_t end = 1;
  std::int64_t milliseconds = 0;  ///< to wait for them

  /// Nothing for another request, and for malformed fields.
  static std::optional<AskedKeys> of(const Frame& request);

  std::string key(std::int64_t number) const { return is_numbered ? text + std::to_string(number) : text; }
};

/// The store's keys and values, and what each request does to them. No sockets.
class Table {
 public:
  /// The reply to a request. Type refused when its fields are malformed or it is no request.
  Frame answer(const Frame& request);
  bool has(const std::string& key) const { return values_.contains(key); }
  std::optional<std::string> find(const std::string& key) const;
  void put(const std::string& key, const std::string& value) { values_[key] = value; }

 private:
  Frame set(FieldReader& fields);
  Frame get_each(const AskedKeys& keys) const;
  Frame add(FieldReader& fields);
  Frame compare_and_set(FieldReader& fields);
  Frame erase(FieldReader& fields);
  Frame current(const std::string& key) const;

  std::map<std::string, std::string> values_;
};

/// The server's side of one authenticated client. It has one request at a time: the next is read when the
/// reply to the last is sent, so a client cannot make the server collect replies.
class Connection {
 public:
  /// `peer`: where the client is.
  Connection(Channel channel, std::string peer) : channel_(std::move(channel)), peer_(std::move(peer)) {}

  int fd() const { return channel_.fd(); }
  bool is_open() const { return static_cast<bool>(channel_); }
  short wanted_events() const;
  /// When `serve_waiting` has something to do, if ever.
  std::optional<Deadline> next_deadline() const;

  /// Reads, answers and writes as far as it goes without waiting.
  void serve(Table& table);
  /// Answers a `get` or `get_each` that waits, when its keys are there now or its time is over, and tells of
  /// watched keys.
  void serve_waiting(Table& table);

  /// Its link is dead.
  void lose(const std::string& problem);
  /// Gives up what the client had claimed.
  void release(Table& table);

  /// What it claimed first; empty when it claimed nothing.
  const std::string& name() const { return name_; }
  /// How the connection ended; empty after a goodbye.
  const std::string& loss() const { return loss_; }

 private:
  void read_requests(Table& table);
  void handle(const Frame& frame, Table& table);
  void claim(const Frame& frame, Table& table);
  void watch(const Frame& frame);
  void send(const Frame& frame);
  void flush();
  void close_because(const std::string& reason);
  void lose();

  Channel channel_;
  std::string peer_;
  std::string name_;
  std::vector<std::string> claims_;
  std::string loss_;
  FrameReader reader_;
  SendBuffer outgoing_;
  struct Waiting {
    Frame request;
    AskedKeys missing;  ///< from the first that is not there
    Deadline deadline;
    bool is_over(const Table& table);
  };
  std::optional<Waiting> waiting_;
  std::vector<std::string> watched_;
};

}  // namespace lockstep::comm
