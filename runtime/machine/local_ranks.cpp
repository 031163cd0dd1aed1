#include "runtime/machine/local_ranks.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <span>
#include <string>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/host.h"
#include "kernels/base/random.h"
#include "kernels/base/uninterrupted.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::runtime {
namespace {

using Body = std::function<std::vector<double>(const comm::World&)>;

void bind_to(const CpuList& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  ::sched_setaffinity(0, sizeof set, &set);  // without it the ranks measure each other's moves, too
}

/// An exit code, then numbers or the error's text.
std::string answer_of(const Body& body, const comm::World& world) {
  try {
    std::string text = "0";
    for (const double number : body(world)) text += fmt::format(" {:a}", number);
    return text;
  } catch (const Error& error) {
    return fmt::format("{} {}", static_cast<int>(error.code()), error.what());
  } catch (const std::exception& error) {
    return fmt::format("{} {}", static_cast<int>(ExitCode::device), error.what());
  }
}

[[noreturn]] void run_rank(const Body& body, const comm::World& world, const std::vector<CpuList>& slices,
                           int answers) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!slices.empty()) bind_to(slices[static_cast<std::size_t>(world.rank) % slices.size()]);
  const std::string text = answer_of(body, world);
  std::span<const char> rest = text;
  while (world.rank == 0 && !rest.empty()) {
    const ssize_t written = uninterrupted([&] { return ::write(answers, rest.data(), rest.size()); });
    if (written <= 0) break;
    rest = rest.subspan(static_cast<std::size_t>(written));
  }
  ::_exit(text.starts_with("0") ? 0 : 1);
}

std::string read_to_end(int from) {
  std::string text;
  char part[4096];
  while (true) {
    const ssize_t got = uninterrupted([&] { return ::read(from, part, sizeof part); });
    if (got <= 0) return text;
    text.append(part, static_cast<std::size_t>(got));
  }
}

std::vector<double> numbers_in(const std::string& answer) {
  char* at = nullptr;
  const long code = std::strtol(answer.c_str(), &at, 10);
  if (answer.empty()) throw DeviceError("a rank that measures was killed: is there memory for all of them?");
  if (code != 0) throw Error(static_cast<ExitCode>(code), at + 1);
  std::vector<double> numbers;
  while (*at != '\0') numbers.push_back(std::strtod(at, &at));
  return numbers;
}

}  // namespace

std::vector<double> run_local_ranks(int ranks, const std::vector<CpuList>& slices, const Body& body) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw DeviceError("no pipe for ranks: " + errno_message(errno));
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  std::vector<pid_t> processes;
  comm::World world{.size = ranks, .local_size = ranks, .run_id = "local-" + random_hex(8)};
  for (int rank = 0; rank < ranks; ++rank) {
    world.rank = world.local_rank = rank;
    const pid_t process = ::fork();
    if (process == 0) run_rank(body, world, slices, to.get());
    if (process > 0) processes.push_back(process);
  }
  to = {};
  const std::string answer = read_to_end(from.get());
  for (const pid_t process : processes) ::waitpid(process, nullptr, 0);
  return numbers_in(answer);
}

}  // namespace lockstep::runtime
