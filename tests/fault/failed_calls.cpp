// Calls that fail, each at the nth time that a process of a short run makes them: one that a signal or a full
// buffer stopped is made again and nobody notices; any other error is met by the same bits, or by a line with
// the reason, in time, and a run that goes on to the same bits.
#include <fmt/format.h>

#include <cerrno>
#include <random>

#include "kernels/base/error.h"
#include "tests/fault/nemesis/hook.h"
#include "tests/fault/short_runs.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

enum class Then {
  well,       ///< the run ends well
  reason,     ///< it does, or says the system's words for the error
  lost_peer,  ///< it does, or says these words or which connection ended
};

struct Failing {
  Shape shape;
  const char* process;
  const char* call;
  const char* path;
  std::vector<std::pair<const char*, int>> errors;
  Then then = Then::reason;
};

#define E(name) \
  { #name, name }
const std::vector<Failing> calls{
    // Files, of the rank that writes them.
    {alone, "rank 0", "open", "", {E(EIO), E(EMFILE), E(ENOMEM)}},
    {by_memory, "rank 0", "create", "/run", {E(EIO), E(EMFILE), E(ENOSPC)}},
    {alone, "rank 0", "read", "", {E(EIO)}},
    {by_memory, "rank 0", "write", "/run", {E(EIO), E(ENOSPC)}},
    {by_memory, "rank 0", "fsync", "/run", {E(EIO), E(ENOSPC)}},
    {by_memory, "rank 0", "rename", "/run", {E(EIO), E(ENOSPC)}},
    {by_memory, "rank 0", "mkdir", "/run", {E(EIO), E(ENOSPC)}},
    {by_memory, "rank 0", "symlink", "/run", {E(EIO), E(ENOSPC), E(EPERM)}, Then::well},
    {by_memory, "rank 0", "unlink", "/run", {E(EIO)}},
    {by_memory, "rank 0", "unlink", ".old/", {E(EIO)}, Then::well},  // of a checkpoint that goes
    {by_memory, "rank 0", "ftruncate", "", {E(EIO), E(ENOSPC)}},
    {alone, "rank 0", "open", "", {E(EINTR)}, Then::well},
    {alone, "rank 0", "create", "", {E(EINTR)}, Then::well},
    {alone, "rank 0", "read", "", {E(EINTR)}, Then::well},
    {alone, "rank 0", "write", "", {E(EINTR)}, Then::well},
    {alone, "rank 0", "fsync", "", {E(EINTR)}, Then::well},
    // Between ranks.
    {by_memory, "rank 0", "send", "", {E(EINTR)}, Then::well},
    {by_memory, "rank 1", "send", "", {E(EINTR)}, Then::well},
    {by_memory, "rank 1", "send", "", {E(EAGAIN)}},  // into a socket with room for all that is ever sent
    {by_memory, "rank 0", "recv", "", {E(EINTR), E(EAGAIN)}, Then::well},
    {by_memory, "rank 1", "recv", "", {E(EINTR), E(EAGAIN)}, Then::well},
    {by_tcp, "rank 0", "send", "", {E(EINTR), E(EAGAIN)}, Then::well},
    {by_tcp, "rank 1", "send", "", {E(EINTR), E(EAGAIN)}, Then::well},
    {by_tcp, "rank 0", "recv", "", {E(EINTR), E(EAGAIN)}, Then::well},
    {by_tcp, "rank 1", "recv", "", {E(EINTR), E(EAGAIN)}, Then::well},
    {by_memory, "rank 0", "accept", "", {E(EINTR), E(EAGAIN), E(ECONNABORTED)}, Then::well},
    {by_tcp, "rank 0", "accept", "", {E(EINTR), E(EAGAIN), E(ECONNABORTED)}, Then::well},
    {by_memory, "rank 1", "connect", "", {E(EINTR), E(EAGAIN)}, Then::well},
    {by_tcp, "rank 1", "connect", "", {E(EINTR)}, Then::well},
    {by_memory, "rank 1", "futex", "", {E(EINTR), E(EAGAIN)}, Then::well},
    {by_memory, "rank 1", "poll", "", {E(EINTR)}, Then::well},
    {by_tcp, "rank 0", "poll", "", {E(EINTR)}, Then::well},
    {by_tcp, "rank 1", "poll", "", {E(EINTR)}, Then::well},
    {by_memory, "rank 0", "send", "", {E(ECONNRESET), E(ENOMEM)}, Then::lost_peer},
    {by_memory, "rank 1", "recv", "", {E(ECONNRESET), E(ENOMEM)}, Then::lost_peer},
    {by_tcp, "rank 0", "send", "", {E(ECONNRESET), E(ENOMEM)}, Then::lost_peer},
    {by_tcp, "rank 1", "recv", "", {E(ECONNRESET), E(ENOMEM)}, Then::lost_peer},
    {by_tcp, "rank 0", "accept", "", {E(EMFILE), E(ENOMEM)}},
    {by_memory, "rank 0", "accept", "", {E(EMFILE), E(ENOMEM)}},
    {by_tcp, "rank 0", "socket", "", {E(EMFILE), E(ENOMEM)}},
    {by_tcp, "rank 1", "socket", "", {E(EMFILE), E(ENOMEM)}},
    {by_memory, "rank 1", "socket", "", {E(EMFILE), E(ENOMEM)}},
    {by_tcp, "rank 1", "connect", "", {E(ENOMEM), E(EAGAIN)}},
    {by_tcp, "rank 0", "poll", "", {E(ENOMEM)}},
    {by_memory, "rank 1", "poll", "", {E(ENOMEM)}},
    // Memory and threads. Files and segments alone are mapped here: oneDNN 2.6 ends with the process when
    // there is
    // no memory for its code.
    {by_memory, "rank 0", "memfd", "", {E(EMFILE), E(ENOMEM)}},
    {by_memory, "rank 0", "mmap", "/", {E(ENOMEM)}},
    {by_memory, "rank 1", "mmap", "/", {E(ENOMEM)}},
    {by_memory, "rank 0", "thread", "", {E(EAGAIN)}},
    {by_tcp, "rank 1", "thread", "", {E(EAGAIN)}},
    // Of launch.
    {by_memory, "launch 0", "open", "", {E(EIO), E(EMFILE)}},
    {by_memory, "launch 0", "read", "", {E(EIO)}},
    {by_memory, "launch 0", "write", "", {E(EIO), E(ENOSPC)}},
    {by_memory, "launch 0", "poll", "", {E(ENOMEM)}},
    {by_memory, "launch 0", "pipe", "", {E(EMFILE)}},
    {by_memory, "launch 0", "fork", "", {E(EAGAIN), E(ENOMEM)}},   // its reaper
    {by_memory, "launch 0", "vfork", "", {E(EAGAIN), E(ENOMEM)}},  // its ranks
    {by_memory, "launch 0", "socket", "", {E(EMFILE)}},
    {by_memory, "launch 0", "flock", "", {E(ENOMEM), E(EINTR)}, Then::well},
    {by_memory, "launch 0", "read", "", {E(EINTR)}, Then::well},
    {by_memory, "launch 0", "write", "", {E(EINTR), E(EAGAIN)}, Then::well},
    {by_memory, "launch 0", "poll", "", {E(EINTR)}, Then::well},
};
#undef E

/// Whether it came to the call of this number, as it must to the first.
bool check(const Failing& failing, const std::pair<const char*, int>& error, int number) {
  CAPTURE(failing.shape.name, failing.process, failing.call, failing.path, error.first, number);
  const TemporaryFolder folder;
  const fs::path struck = folder / "struck";
  const auto set = [](const char* name, const std::string& value) { return name + ("=" + value); };
  const Words hooked{"/usr/bin/timeout",
                     "--signal=KILL",
                     std::to_string(timeout_s + 3),
                     "/usr/bin/env",
                     "LD_PRELOAD=" NEMESIS_HOOK,
                     set(nemesis::process_variable, failing.process),
                     set(nemesis::call_variable, failing.call),
                     set(nemesis::path_variable, failing.path),
                     set(nemesis::count_variable, std::to_string(number)),
                     set(nemesis::act_variable, error.first),
                     set(nemesis::host_variable, "0"),
                     set(nemesis::struck_variable, struck.string())};
  const Words words = training(failing.shape, folder / "run") + Words{"--keep=1"};
  Program run(hooked + words);
  const int code = run.wait_for_end();
  INFO(run.output());
  const bool was_struck = fs::exists(struck);
  if (number == 1) CHECK(was_struck);
  if (code != 0) {
    CHECK(was_struck);
    CHECK(failing.then != Then::well);
    CHECK_THAT(run.output(), !contains("internal error"));
    CHECK((code == 3 || code == 4 || code == 5));
    const auto says_reason = contains(errno_message(error.second));
    if (failing.then == Then::reason) CHECK_THAT(run.output(), says_reason);
    if (failing.then == Then::lost_peer) CHECK_THAT(run.output(), says_reason || contains("connection"));
    hash_of(words, folder / "run");
  }
  CHECK(hash_in(folder / "run") == undisturbed(failing.shape));
  return was_struck;
}

TEST_CASE("a call that fails: one for each kind, the time drawn") {
  std::mt19937 random(1);
  const auto draw = [&](int most) { return 1 + static_cast<int>(random() % static_cast<unsigned>(most)); };
  for (const Failing& failing : calls) {
    for (const auto& error : failing.errors) {
      // An earlier one where there are not so many.
      for (int number = draw(4); !check(failing, error, number) && number > 1;) number = draw(number - 1);
    }
  }
}

TEST_CASE("calls that fail, at each time or, where there are many, at drawn ones", "[.matrix]") {
  std::mt19937 random(2);
  for (const Failing& failing : calls) {
    for (const auto& error : failing.errors) {
      for (unsigned number = 1; check(failing, error, static_cast<int>(number));) {
        number += 1 + static_cast<unsigned>(random() % (1 + number / 2));
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::tests
