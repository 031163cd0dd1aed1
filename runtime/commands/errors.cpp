#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <new>
#include <system_error>

#include <fmt/format.h>

#include "comm/world/world.h"
#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "kernels/base/log.h"
#include "kernels/base/signals.h"
#include "kernels/base/threads.h"
#include "kernels/base/unique_fd.h"
#include "runtime/commands/commands.h"

namespace lockstep::runtime {
namespace {

/// A rank that finds no more room in its stack, or a thread in its own, dies of SIGSEGV without a word.
void require_stack() {
  constexpr rlim_t least_kib = 256;
  rlimit bytes{};
  if (getrlimit(RLIMIT_STACK, &bytes) != 0 || bytes.rlim_cur >= least_kib * 1024) return;
  throw DeviceError(fmt::format("a stack of {} KiB is too small: raise ulimit -s to {} or more",
                                bytes.rlim_cur / 1024, least_kib));
}

}  // namespace

ToldError told(const std::exception& error) {
  if (const auto* own = dynamic_cast<const Error*>(&error)) return {own->what(), own->code()};
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return {
        "out of memory: take a smaller --batch-size or model, or raise the limit (ulimit -v, a container's)",
        ExitCode::device};
  if (const auto* of_system = dynamic_cast<const std::system_error*>(&error)) {
    const bool is_thread = of_system->code() == std::errc::resource_unavailable_try_again;
    return {is_thread ? "no new thread: " + obstacle_to_start_thread(of_system->code().value())
                      : of_system->what(),
            ExitCode::device};
  }
  return {std::string("internal error, please report it: ") + error.what(), ExitCode::device};
}

void write_error_file(const std::string& message, ExitCode code) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == '\0') return;
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  const Json json{
      {"message",
       {{"message", message},
        {"extraInfo",
         {{"timestamp", std::to_string(seconds.count())}, {"exit_code", static_cast<int>(code)}}}}}};
  // A FIFO that nobody reads must not hold this rank.
  const UniqueFd file(::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666));
  const std::string text = json.dump();
  [[maybe_unused]] const ssize_t written = ::write(file.get(), text.data(), text.size());
}

int report_error(const std::string& message, ExitCode code) {
  const std::string line = on_one_line(message);  // what is no Error of ours may have a path in it, too
  log::error(line);
  write_error_file(line, code);
  return static_cast<int>(code);
}

int run_reporting_errors(const std::function<int()>& command) {
  fill_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` fails, and is reported, as any other
  set_up_log(0, 1);               // until the ranks are known
  try {
    require_stack();
    const int code = command();
    // A wrapper script's trap hides the exit code from launch.
    if (code == static_cast<int>(ExitCode::stopped))
      write_error_file("stopped as asked: start it again to go on", ExitCode::stopped);
    return code;
  } catch (const std::exception& error) {
    const auto [message, code] = told(error);
    return report_error(message, code);
  } catch (...) {
    return report_error("internal error, please report it: what was thrown is no std::exception",
                        ExitCode::device);
  }
}

}  // namespace lockstep::runtime
