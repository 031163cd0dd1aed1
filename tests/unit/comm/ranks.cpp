#include "tests/unit/comm/ranks.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <stdexcept>
#include <utility>

namespace lockstep::comm::testing {

std::string fresh_run_id() {
  static std::atomic<int> count{0};
  return fmt::format("test-{}-{}", getpid(), ++count);
}

World local_world(int rank, int size, const std::string& run_id) {
  World world;
  world.rank = world.local_rank = rank;
  world.size = world.local_size = size;
  world.run_id = run_id;
  world.source = "test";
  return world;
}

std::vector<std::string> run_threads(int size, const std::function<void(int rank)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

std::vector<std::string> run_thread_ranks(int size, const CommOptions& options,
                                          const std::function<void(Communicator&)>& body) {
  const std::string run_id = fresh_run_id();
  return run_threads(size, [&](int rank) {
    const auto group = make_communicator(local_world(rank, size, run_id), options);
    body(*group);
  });
}

namespace {

/// "" of a process that has left with 0. A sanitizer and the CUDA machine in software end a process that
/// errs.
std::string complaint(int status) {
  if (WIFSIGNALED(status)) return fmt::format("(killed by signal {})", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("(ended with {})", WEXITSTATUS(status));
}

}  // namespace

RankProcess::RankProcess(const std::function<void()>& body) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ == 0) {
    close(ends[0]);
    std::string outcome;
    try {
      body();
    } catch (const std::exception& error) {
      outcome = error.what();
    }
    const ssize_t written = write(ends[1], outcome.data(), outcome.size());
    _exit(written == static_cast<ssize_t>(outcome.size()) ? 0 : 1);
  }
  close(ends[1]);
  pipe_ = ends[0];
}

RankProcess::RankProcess(RankProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pipe_(std::exchange(other.pipe_, -1)) {}

RankProcess::~RankProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (pipe_ >= 0) close(pipe_);
}

void RankProcess::signal(int number) const {
  kill(pid_, number);
  if (number == SIGSTOP) waitpid(pid_, nullptr, WUNTRACED);
}

std::string RankProcess::outcome() {
  std::string text;
  char buffer[1024];
  ssize_t got = 0;
  while ((got = read(pipe_, buffer, sizeof(buffer))) > 0) text.append(buffer, static_cast<std::size_t>(got));
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return text + complaint(status);
}

}  // namespace lockstep::comm::testing
