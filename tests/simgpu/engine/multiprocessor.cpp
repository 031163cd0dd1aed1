#include "tests/simgpu/engine/multiprocessor.h"

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "tests/simgpu/engine/mistake.h"
#include "tests/simgpu/engine/names.h"
#include "tests/simgpu/engine/run_grid.h"
#include "tests/simgpu/engine/traffic_counter.h"
#include "tests/simgpu/machine/mistake.h"
#include "tests/simgpu/operation.h"

constinit thread_local uint3 threadIdx{};
constinit thread_local uint3 blockIdx{};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace simgpu {

constinit thread_local Multiprocessor* Multiprocessor::running_ = nullptr;

/// Marks the multiprocessor as the running one, for as long as it lives.
class Multiprocessor::Running {
 public:
  explicit Running(Multiprocessor& multiprocessor) { running_ = &multiprocessor; }
  ~Running() { running_ = nullptr; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

void Multiprocessor::run(const Grid& grid, const std::function<void()>& thread_body) {
  const Running running(*this);
  grid_ = &grid;
  blockDim = grid.threads;
  gridDim = grid.blocks;
  scheduler_.begin_grid(grid.threads, ThreadOrder::from_environment());
  shared_memory_.begin_grid(grid.shared_bytes);
  const ThreadScheduler::ExitHook exit_hook = [this](std::uint32_t thread) {
    warps_[thread / limits::warp_threads].lane_exited(thread % limits::warp_threads);
    barrier_.thread_exited();
  };
  Walk blocks = scheduler_.order().walk(count(grid.blocks));
  while (!blocks.done()) {
    const std::uint64_t number = blocks.next();
    const std::uint64_t rows = number / grid.blocks.x;
    blockIdx = {static_cast<unsigned>(number % grid.blocks.x), static_cast<unsigned>(rows % grid.blocks.y),
                static_cast<unsigned>(rows / grid.blocks.y)};
    begin_block();
    scheduler_.run(thread_body, exit_hook);
    copies_.end_block(scheduler_);
    shared_memory_.end_block();
  }
}

void Multiprocessor::begin_block() {
  barrier_.begin_block();
  for (std::uint32_t warp = 0; warp * limits::warp_threads < scheduler_.size(); ++warp)
    warps_[warp].begin_block(scheduler_, warp);
  shared_memory_.begin_block();
  copies_.begin_block();
}

void run_grid(const Grid& grid, const std::function<void()>& thread_body) {
  // On the heap: threadIdx and its kin must lie in the space that the C library keeps for thread-local
  // variables of libraries loaded late, and there is little of it for all variables of a library together.
  thread_local const auto multiprocessor = std::make_unique<Multiprocessor>();
  if (Multiprocessor::running())
    report_mistake("launch inside a kernel", running_block_text() + " launches " + grid.name);
  TrafficCounter& traffic = traffic_counter();
  try {
    if (traffic.enabled) traffic.begin(grid);
    multiprocessor->run(grid, thread_body);
    if (traffic.enabled) traffic.end();
  } catch (const KernelMistake& mistake) {
    report_mistake(mistake.kind, mistake.text);
  } catch (const KernelFault& fault) {
    print_mistake(cudaGetErrorString(fault.error), fault.text);
    set_sticky_error(fault.error);
  }
}

std::optional<std::string> running_thread() {
  Multiprocessor* running = Multiprocessor::running();
  if (!running) return std::nullopt;
  return running_block_text() + ", thread " + index_text(threadIdx);
}

void kernel_mistake(std::string kind, const std::string& text) {
  throw KernelMistake{std::move(kind), running_thread().value_or("host") + " " + text};
}

}  // namespace simgpu
