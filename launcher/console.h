#pragma once

#include <poll.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/unique_fd.h"

namespace lockstep::launcher {

/// What launch says once of a stream or a log that takes no more: a full disk, `ulimit -f`.
std::string loss_line(std::string_view name, int error);

/// Text that may go to the console now.
struct ConsoleText {
  std::string text;
  bool continues_bar = false;  ///< begins inside a line that a progress bar redraws
  bool leaves_bar = false;     ///< ends inside one
};

/// Cuts one worker's stream into whole, prefixed lines. A very long one is not kept until it is whole: it
/// passes as it comes. Text after a carriage return is a progress bar: where bars are allowed (one rank, on a
/// terminal) it passes at once and unprefixed, else only its last state is kept.
class Lines {
 public:
  Lines(std::string prefix, bool bars) : prefix_(std::move(prefix)), bars_(bars) {}

  ConsoleText feed(std::string_view bytes);
  /// A part of a line has passed, and the rest has not.
  bool is_inside_line() const { return in_line_; }
  /// Before others' text: its newline. What comes next of it is a line of its own.
  ConsoleText end_open_line();
  /// The stream has ended: what was left without a newline gets one.
  ConsoleText finish();

 private:
  void add(std::string_view text, bool ends_line, std::string& out);
  std::string_view last_state(std::string_view line) const;

  std::string prefix_;
  bool bars_;
  bool in_bar_ = false;
  bool in_line_ = false;
  std::string partial_;
};

/// launch's stdout and stderr, shared by all workers. Text is queued and written only as far as the reader
/// takes it, so that a stalled pager never keeps launch from watching its workers.
class Console {
 public:
  Console();

  bool is_terminal(int stream) const { return terminals_[index(stream)]; }
  /// `stream` is 1 (stdout) or 2 (stderr).
  void show(int stream, const ConsoleText& text);

  /// Writes what fits without waiting. What the one stream loses is told by the other, once.
  void flush();
  bool empty() const { return queues_[0].empty() && queues_[1].empty(); }
  /// The reader is so far behind that workers should wait.
  bool is_full() const;
  /// Never full from now on: text that comes while the reader is so far behind is dropped.
  void drop_excess() { drops_excess_ = true; }
  /// The reader of `stream` went away.
  bool is_closed(int stream) const { return closed_[index(stream)]; }

  /// What to poll while text is queued.
  void add_polls(std::vector<pollfd>& polls) const;

 private:
  int fd(int stream) const { return own_[index(stream)] ? own_[index(stream)].get() : stream; }
  void name_loss(int stream, int error);
  static std::size_t index(int stream) { return static_cast<std::size_t>(stream - 1); }

  std::array<bool, 2> terminals_;
  bool bar_open_ = false;
  bool drops_excess_ = false;
  /// A terminal, opened once more: who shares it with us must not find it non-blocking. None: no terminal.
  std::array<UniqueFd, 2> own_;
  std::array<std::string, 2> queues_;
  std::array<bool, 2> closed_ = {};
  std::array<bool, 2> loses_text_ = {};
};

}  // namespace lockstep::launcher
