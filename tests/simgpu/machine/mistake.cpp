#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "tests/simgpu/machine/mistake.h"
#include "tests/simgpu/operation.h"

namespace simgpu {
namespace {

constexpr int exit_code = 86;

struct Handler {
  std::mutex mutex;
  MistakeHandler function;
};

Handler& handler() {
  static Handler instance;
  return instance;
}

MistakeHandler installed() {
  const std::lock_guard lock(handler().mutex);
  return handler().function;
}

}  // namespace

void print_mistake(std::string_view kind, const std::string& text) {
  const std::string line = "simgpu: " + std::string(kind) + ": " + text + "\n";
  // One write, so that lines of several ranks do not mix.
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) std::abort();
}

void end_after_mistake(std::string_view kind, const std::string& text) {
  print_mistake(kind, text);
  _exit(exit_code);  // no destructors: they would use a machine that was found in a wrong state
}

void report_mistake(std::string_view kind, const std::string& text) {
  if (const auto function = installed()) function(kind, text);
  end_after_mistake(kind, text);
}

MistakeHandler set_mistake_handler(MistakeHandler function) {
  const std::lock_guard lock(handler().mutex);
  std::swap(handler().function, function);
  return function;
}

}  // namespace simgpu
