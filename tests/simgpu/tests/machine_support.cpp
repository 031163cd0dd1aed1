#include "tests/simgpu/tests/machine_support.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <stdexcept>

#include "tests/simgpu/machine/machine.h"
#include "tests/support/catch.h"

namespace simgpu::test {
namespace {

struct Thrown {
  Mistake mistake;
};

Settings chosen_settings(const std::function<void(Settings&)>& choose) {
  Settings settings = settings_from_environment();
  settings.device_bytes = std::size_t{16} << 20;
  if (choose) choose(settings);
  return settings;
}

std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> piece;
  for (ssize_t size; (size = read(file, piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(size));
  }
  return text;
}

Operation kernel(const std::string& name, std::vector<Access> accesses, std::function<void()> body) {
  return {Operation::Kind::kernel, name, std::move(accesses), [body = std::move(body)] {
            body();
            return true;
          }};
}

}  // namespace

FreshMachine::FreshMachine(const std::function<void(Settings&)>& choose) {
  restart_machine(chosen_settings(choose));
  set_mistake_handler([](std::string_view kind, const std::string& text) {
    throw Thrown{{std::string(kind), text}};
  });
  cudaGetLastError();
}

FreshMachine::~FreshMachine() {
  set_mistake_handler({});
}

Mistake whole_mistake_in(const std::function<void()>& program) {
  try {
    program();
  } catch (const Thrown& thrown) {
    return thrown.mistake;
  }
  return {"none", ""};
}

std::string mistake_in(const std::function<void()>& program) {
  const Mistake mistake = whole_mistake_in(program);
  if (mistake.kind != "none") UNSCOPED_INFO(mistake.text);
  return mistake.kind;
}

std::string end_of_process(const std::function<void()>& program,
                           const std::function<void(Settings&)>& choose) {
  const FreshMachine without_threads;  // a fork has only the thread that forks
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    std::signal(SIGSEGV, SIG_DFL);  // Catch2's handler would tell of a failed test
    set_mistake_handler({});
    restart_machine(chosen_settings(choose));
    program();
    _exit(0);
  }
  close(ends[1]);
  const std::string text = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return std::to_string(code) + " " + text;
}

void ok(cudaError_t error) {
  INFO(cudaGetErrorName(error));
  REQUIRE(error == cudaSuccess);
}

cudaStream_t make_stream(unsigned flags) {
  cudaStream_t stream = nullptr;
  ok(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

float* make_floats(std::size_t count) {
  void* pointer = nullptr;
  ok(cudaMalloc(&pointer, count * sizeof(float)));
  return static_cast<float*>(pointer);
}

float* make_pinned(std::size_t count) {
  void* pointer = nullptr;
  ok(cudaMallocHost(&pointer, count * sizeof(float)));
  return static_cast<float*>(pointer);
}

cudaError_t launch_add(cudaStream_t stream, float* values, std::size_t count, float summand,
                       const std::string& name) {
  return enqueue(stream, kernel(name, {{values, nullptr, true}}, [=] {
                   for (std::size_t i = 0; i < count; ++i) values[i] += summand;
                 }));
}

cudaError_t launch_copy(cudaStream_t stream, float* to, const float* from, std::size_t count,
                        const std::string& name) {
  return enqueue(stream, kernel(name, {{from, nullptr, false}, {to, nullptr, true}}, [=] {
                   for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
                 }));
}

void set_floats(float* device, const std::vector<float>& values) {
  ok(cudaMemcpy(device, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
  ok(cudaStreamSynchronize(nullptr));
}

std::vector<float> read_floats(const float* device, std::size_t count) {
  std::vector<float> values(count);
  ok(cudaDeviceSynchronize());
  ok(cudaMemcpy(values.data(), device, count * sizeof(float), cudaMemcpyDeviceToHost));
  return values;
}

}  // namespace simgpu::test
