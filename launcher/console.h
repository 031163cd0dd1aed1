#pragma once

#include <poll.h>

#include <array>
#include <string>
#include <vector>

#include "launcher/lines.h"

namespace lockstep::launcher {

/// launch's stdout and stderr, shared by all workers. Text is queued and written only as far as the reader
/// takes it, so that a stalled pager never keeps launch from watching its workers.
class Console {
 public:
  explicit Console(bool terminal) : terminal_(terminal) {}

  /// `stream` is 1 (stdout) or 2 (stderr).
  void show(int stream, const ConsoleText& text);

  /// Writes what fits without waiting.
  void flush();
  bool empty() const { return queues_[0].empty() && queues_[1].empty(); }
  /// The reader is so far behind that workers should wait.
  bool is_full() const;
  /// The reader of `stream` went away.
  bool is_closed(int stream) const { return closed_[index(stream)]; }

  /// What to poll while text is queued.
  void add_polls(std::vector<pollfd>& polls) const;

 private:
  static std::size_t index(int stream) { return static_cast<std::size_t>(stream - 1); }

  bool terminal_;
  bool bar_open_ = false;
  std::array<std::string, 2> queues_;
  std::array<bool, 2> closed_ = {};
};

}  // namespace lockstep::launcher
