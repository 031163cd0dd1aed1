#include "tests/simgpu/tests/engine_support.h"

#include <cstdlib>
#include <utility>

namespace simgpu::test {

void run(dim3 blocks, dim3 threads, const std::function<void()>& thread, std::size_t shared_bytes) {
  run_grid({blocks, threads, shared_bytes, "tested", {}}, thread);
}

KernelMistakeSeen mistake_of(dim3 blocks, dim3 threads, const std::function<void()>& thread,
                             std::size_t shared_bytes) {
  return mistake_in([&] { run(blocks, threads, thread, shared_bytes); });
}

KernelMistakeSeen mistake_in(const std::function<void()>& program) {
  auto before = set_mistake_handler([](std::string_view kind, const std::string& text) {
    throw KernelMistakeSeen{std::string(kind), text};
  });
  KernelMistakeSeen seen;
  try {
    program();
  } catch (const KernelMistakeSeen& mistake) {
    seen = mistake;
  }
  set_mistake_handler(std::move(before));
  return seen;
}

Environment::Environment(std::string name, const std::string& value) : name_(std::move(name)) {
  const char* before = std::getenv(name_.c_str());
  was_set_ = before != nullptr;
  if (before) before_ = before;
  setenv(name_.c_str(), value.c_str(), 1);
}

Environment::~Environment() {
  if (was_set_) {
    setenv(name_.c_str(), before_.c_str(), 1);
  } else {
    unsetenv(name_.c_str());
  }
}

}  // namespace simgpu::test
