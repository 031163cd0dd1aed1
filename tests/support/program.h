#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "kernels/base/deadline.h"
#include "tests/support/slowness.h"

namespace lockstep::tests {

/// Far above what a loaded machine needs for a short run, below ctest's own limit.
inline constexpr Seconds patience(20 * slowness);

/// A real program as a child of a test, its stdout and stderr in one pipe or on a pseudo terminal. Every wait
/// has a deadline, after which the test fails with the output so far.
class Program {
 public:
  enum class Console { pipe, terminal };

  /// `words`: the program's path, then its arguments.
  explicit Program(const std::vector<std::string>& words, Console console = Console::pipe);
  Program(const Program&) = delete;
  ~Program();

  pid_t pid() const { return pid_; }
  /// Reads until the output holds `text` `times` times.
  void wait_for(const std::string& text, int times = 1);
  /// Keys pressed on its terminal.
  void type(const std::string& keys) const;
  /// Everything up to the end; the exit code, 128 + n after signal n.
  int wait_for_end(Seconds limit = patience);
  /// Whichever closes its output first; both are read meanwhile.
  static Program& first_to_end(Program& one, Program& two);
  const std::string& output() const { return output_; }
  Seconds age() const { return Clock::now() - started_; }

  /// What follows "<name>=" on a line of the output, as a number; workers tell their pids so.
  pid_t number_after(const std::string& name) const;

 private:
  bool read_more(const Deadline& deadline);

  pid_t pid_ = -1;
  int console_ = -1;
  Clock::time_point started_ = Clock::now();
  std::string output_;
};

/// Waits until the process is gone, zombies included; false when it outlives the deadline.
bool wait_until_gone(pid_t pid, Seconds limit = Seconds(10));
/// Sends SIGSTOP and waits until the process is in state T.
void stop(pid_t pid);
bool wait_until_stopped(pid_t pid);
/// Waits until at one moment no thread of these processes ran or could run.
bool wait_until_all_asleep(const std::vector<pid_t>& pids);
pid_t parent_of(pid_t pid);
/// Waits until `parent` has a child whose program is called so.
pid_t child_named(pid_t parent, const std::string& name);

}  // namespace lockstep::tests
