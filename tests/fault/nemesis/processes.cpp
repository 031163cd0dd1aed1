#include "tests/fault/nemesis/processes.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/file.h"

namespace lockstep::nemesis {
namespace {

sigset_t ends_of_children() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  return set;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

bool sets_again(std::string_view entry, const std::vector<std::string>& variables) {
  const std::string_view name = entry.substr(0, entry.find('=') + 1);
  return std::ranges::any_of(variables, [&](const std::string& one) { return one.starts_with(name); });
}

[[noreturn]] void become(const Command& command, char* const* words, char* const* variables) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int output = ::open(command.output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int input = ::open("/dev/null", O_RDONLY);
  if (output < 0 || input < 0 || chdir(command.folder.c_str()) != 0) _exit(126);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  closefrom(3);
  execve(words[0], words, variables);
  _exit(127);
}

std::vector<pid_t> children() {
  std::vector<pid_t> pids;
  const std::string list = read_text(fmt::format("/proc/self/task/{}/children", getpid()));
  for (const char *at = list.data(), *end = at + list.size(); at < end; ++at) {
    pid_t pid = 0;
    const auto [next, error] = std::from_chars(at, end, pid);
    if (error == std::errc()) pids.push_back(pid);
    at = std::find(next, end, ' ');
  }
  return pids;
}

}  // namespace

void adopt_orphans() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const sigset_t set = ends_of_children();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

pid_t start(const Command& command) {
  std::vector<std::string> environment = command.variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!sets_again(*entry, command.variables)) environment.emplace_back(*entry);
  }
  const std::vector<char*> words = pointers(command.words);
  const std::vector<char*> variables = pointers(environment);
  const pid_t pid = fork();
  if (pid < 0) throw DeviceError("no process: " + errno_message(errno));
  if (pid == 0) become(command, words.data(), variables.data());
  return pid;
}

void Ends::take() {
  int status = 0;
  pid_t pid = 0;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    codes_[pid] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  has_children_ = pid == 0;
}

bool Ends::wait_until(const std::function<bool()>& done, Seconds limit) {
  constexpr timespec slice = {.tv_sec = 0, .tv_nsec = 50'000'000};
  const sigset_t set = ends_of_children();
  Seconds waited{0};
  for (take(); !done(); take()) {
    if (waited >= limit) return false;
    if (sigtimedwait(&set, nullptr, &slice) < 0 && errno == EAGAIN) waited += Seconds(0.05);
  }
  waited_ += waited;
  return true;
}

bool Ends::wait_for_any(const std::vector<pid_t>& pids, Seconds limit) {
  return wait_until([&] { return std::ranges::any_of(pids, [&](pid_t pid) { return has(pid); }); }, limit);
}

bool Ends::wait_for_all(const std::vector<pid_t>& pids, Seconds limit) {
  return wait_until([&] { return std::ranges::all_of(pids, [&](pid_t pid) { return has(pid); }); }, limit);
}

bool Ends::wait_for_last(Seconds limit) {
  return wait_until([&] { return !has_children_; }, limit);
}

std::vector<std::string> living_children() {
  std::vector<std::string> names;
  for (const pid_t pid : children()) {
    std::string name = read_text(fmt::format("/proc/{}/comm", pid));
    if (!name.empty()) name.pop_back();
    names.push_back(fmt::format("{} (pid {})", name, pid));
  }
  return names;
}

void kill_children() {
  for (Ends ends; !ends.wait_for_last(Seconds(0.1));) {
    for (const pid_t pid : children()) ::kill(pid, SIGKILL);
  }
}

}  // namespace lockstep::nemesis
