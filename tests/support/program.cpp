#include "tests/support/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/support/catch.h"

namespace lockstep::tests {
namespace {

struct Ends {
  int ours;
  int theirs;
};

Ends open_console(Program::Console console) {
  int ends[2] = {-1, -1};
  if (console == Program::Console::terminal) {
    const winsize size = {.ws_row = 24, .ws_col = 77, .ws_xpixel = 0, .ws_ypixel = 0};
    REQUIRE(openpty(&ends[0], &ends[1], nullptr, nullptr, &size) == 0);
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  } else {
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  }
  return {ends[0], ends[1]};
}

/// What /proc/<pid>/stat tells after the name: "T 123 ...", state and parent; empty when it is gone.
std::string stat_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const auto name_end = stat.rfind(')');
  return name_end == std::string::npos ? std::string() : stat.substr(name_end + 2);
}

char state_of(pid_t pid) {
  const std::string stat = stat_of(pid);
  return stat.empty() ? '-' : stat.front();
}

template <typename Condition>
bool wait_until(Condition condition, Seconds limit) {
  for (const Deadline deadline = Deadline::in(limit); !condition();) {
    if (deadline.passed()) return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

/// How often each thread was switched in and out; none while one of them can run.
std::optional<std::string> switches_if_asleep(const std::vector<pid_t>& pids) {
  std::string switches;
  for (const pid_t pid : pids) {
    for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid))) {
      std::ifstream status(thread.path() / "status");
      for (std::string line; std::getline(status, line);) {
        if (line.starts_with("State:") && line.find("S (sleeping)") == std::string::npos) return {};
        if (line.find("ctxt_switches") != std::string::npos) switches += line;
      }
    }
  }
  return switches;
}

}  // namespace

Program::Program(const std::vector<std::string>& words, Console console) {
  const Ends ends = open_console(console);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    if (console == Console::terminal) dup2(ends.theirs, STDIN_FILENO);
    dup2(ends.theirs, STDOUT_FILENO);
    dup2(ends.theirs, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(ends.theirs);
  console_ = ends.ours;
}

Program::~Program() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(console_);
}

bool Program::read_more(const Deadline& deadline) {
  pollfd entry = {.fd = console_, .events = POLLIN, .revents = 0};
  const int ready = poll(&entry, 1, static_cast<int>(deadline.left().count() * 1000) + 1);
  INFO("the program is silent; its output so far:\n" << output_);
  REQUIRE(ready > 0);
  std::array<char, 4096> buffer;
  const ssize_t count = read(console_, buffer.data(), buffer.size());
  if (count <= 0) return false;  // a terminal without writers gives EIO
  output_.append(buffer.data(), static_cast<std::size_t>(count));
  return true;
}

void Program::wait_for(const std::string& text, int times) {
  const auto found = [&] {
    int count = 0;
    for (auto at = output_.find(text); at != std::string::npos; at = output_.find(text, at + 1)) ++count;
    return count >= times;
  };
  for (const Deadline deadline = Deadline::in(patience); !found();) {
    const bool more = read_more(deadline);
    INFO("the program ended without '" << text << "':\n" << output_);
    REQUIRE(more);
  }
}

void Program::type(const std::string& keys) const {
  REQUIRE(write(console_, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
}

int Program::wait_for_end(Seconds limit) {
  const Deadline deadline = Deadline::in(limit);
  while (read_more(deadline)) {
  }
  siginfo_t info = {};
  INFO("the program closed its output but lives:\n" << output_);
  REQUIRE(wait_until(
      [&] {
        return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG) == 0 && info.si_pid == pid_;
      },
      patience));
  pid_ = -1;
  return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

Program& Program::first_to_end(Program& one, Program& two) {
  for (const Deadline deadline = Deadline::in(patience);;) {
    std::array<pollfd, 2> entries{{{one.console_, POLLIN, 0}, {two.console_, POLLIN, 0}}};
    poll(entries.data(), entries.size(), static_cast<int>(deadline.left().count() * 1000) + 1);
    if (entries[0].revents != 0 && !one.read_more(deadline)) return one;
    if (entries[1].revents != 0 && !two.read_more(deadline)) return two;
    INFO("neither ends; the output of both so far:\n" << one.output_ << two.output_);
    REQUIRE_FALSE(deadline.passed());
  }
}

pid_t Program::number_after(const std::string& name) const {
  const auto at = output_.find(name + "=");
  INFO(output_);
  REQUIRE(at != std::string::npos);
  return std::stoi(output_.substr(at + name.size() + 1));
}

bool wait_until_gone(pid_t pid, Seconds limit) {
  return wait_until([&] { return kill(pid, 0) != 0 || state_of(pid) == 'Z'; }, limit);
}

void stop(pid_t pid) {
  kill(pid, SIGSTOP);
  REQUIRE(wait_until_stopped(pid));
}

bool wait_until_stopped(pid_t pid) {
  return wait_until([&] { return state_of(pid) == 'T'; }, patience);
}

bool wait_until_all_asleep(const std::vector<pid_t>& pids) {
  // A thread that ran between two equal looks would have been switched in and out.
  return wait_until(
      [&] {
        const auto before = switches_if_asleep(pids);
        return before && before == switches_if_asleep(pids);
      },
      patience);
}

pid_t parent_of(pid_t pid) {
  const std::string stat = stat_of(pid);
  REQUIRE(!stat.empty());
  return std::stoi(stat.substr(2));
}

pid_t child_named(pid_t parent, const std::string& name) {
  pid_t found = -1;
  const auto look = [&] {
    std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", parent));
    for (pid_t pid = 0; found < 0 && children >> pid;) {
      std::ifstream comm(fmt::format("/proc/{}/comm", pid));
      std::string line;
      if (std::getline(comm, line) && line == name) found = pid;
    }
    return found > 0;
  };
  INFO("process " << parent << " has no child named " << name);
  REQUIRE(wait_until(look, patience));
  return found;
}

}  // namespace lockstep::tests
