#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/net/channel.h"
#include "comm/net/credentials.h"
#include "comm/net/frame.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// A connection to the run's store, for one thread at a time. Every call ends by its deadline with a result
/// or a CommError. When an answer is late the connection stays, and drops the answer when it comes; after any
/// other error it is closed.
class StoreClient {
 public:
  /// Says why a store of the run is not the one that is looked for; nothing when it is.
  using Inspect = std::function<std::optional<std::string>(StoreClient&)>;

  /// Tries the ports in turn, the first eight more often than others, and a name that does not resolve yet,
  /// until one proves to be this run's store, and `inspect` says nothing against it and does not lose it.
  /// What is in the way is logged within 5 s, and thrown at the deadline, or when the store itself refuses.
  static StoreClient connect(const std::string& address, const std::vector<int>& ports,
                             const Credentials& credentials, Deadline deadline, const Inspect& inspect = {});
  /// The run's store, when it is there: asks once.
  static std::optional<StoreClient> find(const std::string& address, int port, const Credentials& credentials,
                                         Deadline deadline);

  void set(std::string_view key, std::string_view value, Deadline deadline);
  /// The same without waiting for the store to have taken it.
  void post(std::string_view key, std::string_view value);
  /// Whether no answer is outstanding; never waits.
  bool has_all_answers();
  std::optional<std::string> get(std::string_view key, Deadline deadline);
  /// Waits until the key is there.
  std::string wait(std::string_view key, Deadline deadline);
  /// The same; nothing at the deadline, or when the store does not answer in a second from then on.
  std::optional<std::string> wait_for(std::string_view key, Deadline deadline);
  /// The values of `text` with the numbers from `first` to before `end` behind it: as many as are there, from
  /// the first on without a gap, when all are or at the deadline. There may be too many for one call: ask for
  /// the rest.
  std::vector<std::string> wait_for_each(std::string_view text, std::int64_t first, std::int64_t end,
                                         Deadline deadline);
  /// Adds to a decimal number, 0 when absent; the sum.
  std::int64_t add(std::string_view key, std::int64_t amount, Deadline deadline);
  /// Sets `desired` when the value is `expected` (nothing: when the key is absent). True when it did so.
  bool compare_and_set(std::string_view key, std::optional<std::string_view> expected,
                       std::string_view desired, Deadline deadline);
  /// Makes a key `text` for as long as this connection lasts, whose loss the server reports by the first such
  /// text. Somebody else's text when the key is there already.
  std::optional<std::string> claim(std::string_view key, std::string_view text, Deadline deadline);
  /// True when the key was there.
  bool erase(std::string_view key, Deadline deadline);

  struct Change {
    std::string key;
    std::string value;
  };
  /// Requests one notification as soon as the key is there, beside all other calls. At most 16 keys at a
  /// time.
  void watch(std::string_view key, Deadline deadline);
  /// A watched key that has come, if one has, also before the store was lost; never waits. After `fd` is
  /// readable, and after any other call, call it until it gives nothing: what it holds already makes no
  /// descriptor readable.
  std::optional<Change> take_change();
  /// For poll(2); -1 when the connection is lost.
  int fd() const { return channel_.fd(); }

  /// Until the store is lost, or the deadline.
  void wait_for_end(Deadline deadline);

  /// Closes in order: the server does not count this client as lost.
  void say_goodbye(Deadline deadline);

  /// Of this machine, on the interface that leads to the store.
  std::string own_address() const;
  /// Where the store proved to be.
  const std::string& address() const { return address_; }
  int port() const { return port_; }

 private:
  StoreClient(Channel channel, std::string address, int port)
      : channel_(std::move(channel)), address_(std::move(address)), port_(port) {}

  /// Sends and waits for the reply; nothing when it is late, CommError when refused.
  std::optional<Frame> try_ask(const Frame& request, Deadline deadline);
  /// The same; CommError when it is late.
  Frame ask(const Frame& request, Deadline deadline);
  /// The reply to the last request, when it has come. Late replies to earlier ones are dropped, changes are
  /// kept aside.
  std::optional<Frame> take_reply();
  void keep_change(const Frame& frame);
  /// Reads what has come. False when nothing has.
  bool read_some();
  void queue(const Frame& request);
  /// Sends as far as the socket takes it. False when it takes nothing now.
  bool send_some();
  /// Waits for poll's `events`. False when the deadline passed first.
  bool wait_for_events(short events, Deadline deadline);
  void require_connection() const;
  [[noreturn]] void fail_closed();
  [[noreturn]] void fail(const std::string& reason);
  std::string at_store(const std::string& reason) const;

  Channel channel_;
  std::string address_;
  int port_;
  SendBuffer outgoing_;
  FrameReader reader_;
  std::deque<Change> changes_;
  std::uint64_t asked_ = 0;     ///< requests
  std::uint64_t answered_ = 0;  ///< of those; the store answers in order
};

}  // namespace lockstep::comm
