#include "tests/simgpu/tests/nccl_ranks.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <stdexcept>

namespace simgpu::testing {
namespace {

struct Child {
  pid_t pid;
  int errors;
};

Child start(const std::function<void(int)>& body, int rank) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork");
  if (pid > 0) {
    close(ends[1]);
    return {pid, ends[0]};
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(ends[1], STDERR_FILENO);
  int code = 0;
  try {
    body(rank);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    code = write(STDERR_FILENO, text.data(), text.size()) < 0 ? 2 : 1;
  }
  _exit(code);
}

/// Reads to the end, or kills the process at the deadline.
Outcome wait_for(const Child& child, const lockstep::Deadline& deadline) {
  Outcome outcome;
  pollfd readable{.fd = child.errors, .events = POLLIN, .revents = 0};
  while (true) {
    if (poll(&readable, 1, lockstep::poll_milliseconds(deadline.left())) <= 0) kill(child.pid, SIGKILL);
    char buffer[1024];
    const ssize_t got = read(child.errors, buffer, sizeof(buffer));
    if (got <= 0) break;
    outcome.errors.append(buffer, static_cast<std::size_t>(got));
  }
  close(child.errors);
  int status = 0;
  waitpid(child.pid, &status, 0);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace

std::vector<Outcome> run_ranks(int ranks, const std::function<void(int)>& body, lockstep::Seconds limit) {
  const auto deadline = lockstep::Deadline::in(limit);
  std::vector<Child> children;
  for (int rank = 0; rank < ranks; ++rank) children.push_back(start(body, rank));
  std::vector<Outcome> outcomes;
  for (const Child& child : children) outcomes.push_back(wait_for(child, deadline));
  return outcomes;
}

std::string complaints(const std::vector<Outcome>& outcomes) {
  std::string text;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].code == 0) continue;
    text += "rank " + std::to_string(rank) + " ended with " + std::to_string(outcomes[rank].code) + ": " +
            outcomes[rank].errors + "\n";
  }
  return text;
}

void check(ncclResult_t result) {
  if (result == ncclSuccess) return;
  throw std::runtime_error(std::string(ncclGetErrorString(result)) + ": " + ncclGetLastError(nullptr));
}

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

void require(bool condition, const std::string& text) {
  if (!condition) throw std::runtime_error(text);
}

ncclUniqueId fresh_id() {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id));
  return id;
}

ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

Rank::Rank(const ncclUniqueId& id, int the_rank, int the_ranks) : rank(the_rank), ranks(the_ranks) {
  setenv("SIMGPU_DEVICES", std::to_string(ranks).c_str(), 1);
  check(cudaSetDevice(rank));
  check(cudaStreamCreate(&stream));
  ncclConfig_t config = non_blocking();
  const ncclResult_t begun = ncclCommInitRankConfig(&comm, ranks, id, rank, &config);
  require(begun == ncclInProgress, "a non-blocking init must be in progress");
  complete(begun);
}

ncclResult_t Rank::poll() const {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) check(ncclCommGetAsyncError(comm, &state));
  return state;
}

void Rank::complete(ncclResult_t result) const {
  if (result == ncclInProgress || result == ncclSuccess) result = poll();
  if (result == ncclSuccess) return;
  throw std::runtime_error(std::string(ncclGetErrorString(result)) + ": " + ncclGetLastError(comm));
}

void Rank::close() {
  complete(ncclCommFinalize(comm));
  check(ncclCommDestroy(comm));
}

Signal::Signal() {
  if (pipe(ends_) != 0) throw std::runtime_error("pipe");
}

void Signal::send() const {
  if (write(ends_[1], "x", 1) != 1) throw std::runtime_error("write");
}

void Signal::wait() const {
  char byte;
  if (read(ends_[0], &byte, 1) != 1) throw std::runtime_error("read");
}

}  // namespace simgpu::testing
