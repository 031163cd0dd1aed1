#pragma once

#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicator.h"
#include "comm/make_communicator.h"
#include "comm/world/world.h"
#include "tests/support/no_stream.h"

namespace lockstep::comm::testing {

using tests::NoStream;

/// The elements of an arena on the host.
template <class T>
std::span<T> values_of(const Arena& arena) {
  return {reinterpret_cast<T*>(arena.data()), static_cast<std::size_t>(arena.elements())};
}

/// A run id that no other test, and no other run of this test, uses.
std::string fresh_run_id();

/// World of `rank` on one node of `size` ranks.
World local_world(int rank, int size, const std::string& run_id);

/// Calls `body(rank)` on one thread per rank and returns what each threw ("" when nothing), by rank.
std::vector<std::string> run_threads(int size, const std::function<void(int rank)>& body);

/// Meets on one thread per rank, then calls `body`. What a rank threw, by rank.
std::vector<std::string> run_thread_ranks(int size, const CommOptions& options,
                                          const std::function<void(Communicator&)>& body);

/// A forked process that runs one rank. Killed and reaped when it goes out of scope.
class RankProcess {
 public:
  explicit RankProcess(const std::function<void()>& body);
  ~RankProcess();
  RankProcess(RankProcess&& other) noexcept;
  RankProcess(const RankProcess&) = delete;

  int pid() const { return pid_; }
  /// After SIGSTOP it stands still when this returns.
  void signal(int number) const;
  /// Waits for its end: the text of the exception that `body` ended with, and how the process ended if not
  /// with 0; "" when it did well.
  std::string outcome();

 private:
  int pid_ = -1;
  int pipe_ = -1;
};

}  // namespace lockstep::comm::testing
