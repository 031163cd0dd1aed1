#include "launcher/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/descriptors.h"
#include "kernels/base/error.h"
#include "kernels/base/uninterrupted.h"

namespace lockstep::launcher {
namespace {

UniqueFd open_file(const std::filesystem::path& path, int flags, const std::string& hint) {
  UniqueFd file(uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0644); }));
  if (file) return file;
  throw DeviceError(fmt::format("cannot open '{}': {}", path.string(), obstacle_to_open(errno, hint)));
}

UniqueFd create_log(const std::filesystem::path& path) {
  return open_file(path, O_WRONLY | O_CREAT | O_TRUNC, "name another folder by TMPDIR or --log-dir");
}

UniqueFd open_null(int flags) {
  return open_file("/dev/null", flags, "give the container, or chroot, a /dev");
}

/// A pipe and a log for each of a rank's streams, and what launch has open beside them.
rlim_t needed_by(int ranks) {
  return 4 * static_cast<rlim_t>(ranks) + 64;
}

/// Returns the errno of what failed, or 0.
int write_all(const UniqueFd& file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = uninterrupted([&] { return ::write(file.get(), bytes.data(), bytes.size()); });
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

std::string replace_all(std::string text, const std::string& name, const std::string& value) {
  for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size())) {
    text.replace(at, name.size(), value);
  }
  return text;
}

}  // namespace

Output::Output(const Options& options, const LogFolder& logs, int first_rank, int ranks)
    : options_(options),
      logs_(logs),
      first_rank_(first_rank),
      ranks_(ranks),
      limit_of_workers_(allow_descriptors(needed_by(ranks))) {}

StandardStreams Output::open(int rank) {
  const bool inherits_input = rank == 0 && isatty(STDIN_FILENO) == 0;
  return {.in = inherits_input ? STDIN_FILENO : keep(open_null(O_RDONLY)),
          .out = open_stream(rank, STDOUT_FILENO),
          .err = open_stream(rank, STDERR_FILENO)};
}

int Output::open_stream(int rank, int stream) {
  const bool teed = options_.tee.has(rank, stream);
  const bool logged = teed || options_.redirects.has(rank, stream);
  const bool shown = is_shown(rank) && (teed || !logged);
  const std::string prefix = prefix_of(rank, stream);
  if (logged && !shown) return keep(create_log(logs_.stream_file(rank, stream)));
  if (!shown) return keep(open_null(O_WRONLY));
  if (!logged && ranks_ == 1 && prefix.empty()) return stream;

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw DeviceError(fmt::format("no pipe: {}", obstacle_to_open(errno)));
  UniqueFd read_end(ends[0]);
  const int write_end = keep(UniqueFd(ends[1]));
  fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
  pipes_.push_back({.fd = std::move(read_end),
                    .rank = rank,
                    .stream = stream,
                    .lines = Lines(prefix, console_.is_terminal(stream) && rank == 0),
                    .log = logged ? create_log(logs_.stream_file(rank, stream)) : UniqueFd()});
  return write_end;
}

int Output::keep(UniqueFd fd) {
  worker_ends_.push_back(std::move(fd));
  return worker_ends_.back().get();
}

bool Output::is_shown(int rank) const {
  const auto& shown = options_.shown_ranks;
  return shown.empty() || std::ranges::find(shown, rank) != shown.end();
}

std::string Output::prefix_of(int rank, int stream) const {
  if (options_.prefix_template.empty()) {
    return console_.is_terminal(stream) && ranks_ > 1 ? fmt::format("[rank{}] ", first_rank_ + rank)
                                                      : std::string();
  }
  std::string text = replace_all(options_.prefix_template, "${role_name}", options_.role);
  text = replace_all(text, "${local_rank}", std::to_string(rank));
  return replace_all(text, "${rank}", std::to_string(first_rank_ + rank));
}

void Output::show_line(std::string_view line) {
  show(nullptr, STDERR_FILENO, {.text = std::string(line)});
  console_.flush();
}

void Output::add_polls(std::vector<pollfd>& polls) const {
  console_.add_polls(polls);
  if (console_.is_full()) return;
  for (const Pipe& pipe : pipes_) polls.push_back({.fd = pipe.fd.get(), .events = POLLIN, .revents = 0});
}

void Output::serve() {
  for (Pipe& pipe : pipes_) {
    if (!console_.is_full()) read_some(pipe);
  }
  std::erase_if(pipes_, [](const Pipe& pipe) { return !pipe.fd; });
  console_.flush();
}

void Output::read_some(Pipe& pipe) {
  std::array<char, 16384> buffer;
  const ssize_t count = ::read(pipe.fd.get(), buffer.data(), buffer.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return close_pipe(pipe);
  pass_on(pipe, {buffer.data(), static_cast<std::size_t>(count)});
  // As in any pipeline: when nobody reads any more, the writer is told by SIGPIPE.
  if (console_.is_closed(pipe.stream) && !pipe.log) close_pipe(pipe);
}

void Output::pass_on(Pipe& pipe, std::string_view bytes) {
  // A full disk loses text, never the run.
  const int error = pipe.log ? write_all(pipe.log, bytes) : 0;
  if (error != 0 && !std::exchange(pipe.log_loses_text, true)) {
    const std::string name = logs_.stream_file(pipe.rank, pipe.stream).string();
    show(nullptr, STDERR_FILENO, {.text = loss_line(name, error)});
  }
  show(&pipe, pipe.stream, pipe.lines.feed(bytes));
}

void Output::show(const Pipe* from, int stream, const ConsoleText& text) {
  if (text.text.empty()) return;
  for (Pipe& pipe : pipes_) {
    if (&pipe != from && pipe.stream == stream && pipe.lines.is_inside_line())
      console_.show(stream, pipe.lines.end_open_line());
  }
  console_.show(stream, text);
}

void Output::close_pipe(Pipe& pipe) {
  show(&pipe, pipe.stream, pipe.lines.finish());
  pipe.fd.reset();
}

void Output::drain() {
  for (Pipe& pipe : pipes_) {
    std::array<char, 16384> buffer;
    for (ssize_t count; (count = ::read(pipe.fd.get(), buffer.data(), buffer.size())) > 0;) {
      pass_on(pipe, {buffer.data(), static_cast<std::size_t>(count)});
    }
    close_pipe(pipe);
  }
  pipes_.clear();
  console_.flush();
}

}  // namespace lockstep::launcher
