#include "tests/simgpu/engine/device_calls.h"

#include <bit>
#include <string>

#include "tests/simgpu/engine/mistake.h"
#include "tests/simgpu/engine/multiprocessor.h"
#include "tests/simgpu/engine/names.h"
#include "tests/simgpu/engine/run_grid.h"
#include "tests/simgpu/machine/block.h"

namespace simgpu {
namespace {

/// The multiprocessor that runs the calling thread.
Multiprocessor& here() {
  if (Multiprocessor* running = Multiprocessor::running()) return *running;
  throw KernelMistake{"device call on the host", "a function of the device was called outside of a kernel"};
}

template <typename Function>
void each_lane(std::uint32_t mask, Function function) {
  for (; mask; mask &= mask - 1) function(static_cast<std::uint32_t>(std::countr_zero(mask)));
}

void deliver_shuffle(Warp::Lanes& lanes, std::uint32_t present) {
  each_lane(present, [&](std::uint32_t number) {
    Warp::Lane& lane = lanes[number];
    const auto source = static_cast<std::uint32_t>(lane.source);
    if (!(present >> source & 1u)) {
      kernel_mistake("read from a lane outside of the mask",
                     "lane " + std::to_string(number) + " reads lane " + std::to_string(source) + " in " +
                         call_text(*lane.call, lane.mask) + ": the value is undefined on a GPU");
    }
    lane.result = lanes[source].value;
  });
}

void deliver_ballot(Warp::Lanes& lanes, std::uint32_t present) {
  std::uint32_t ballot = 0;
  each_lane(present, [&](std::uint32_t number) {
    if (lanes[number].value) ballot |= 1u << number;
  });
  each_lane(present, [&](std::uint32_t number) { lanes[number].result = ballot; });
}

void deliver_match(Warp::Lanes& lanes, std::uint32_t present) {
  each_lane(present, [&](std::uint32_t number) {
    lanes[number].result = 0;
    each_lane(present, [&](std::uint32_t other) {
      if (lanes[other].value == lanes[number].value) lanes[number].result |= 1u << other;
    });
  });
}

void deliver_reduction(Warp::Lanes& lanes, std::uint32_t present) {
  const auto first = static_cast<std::uint32_t>(std::countr_zero(present));
  auto result = static_cast<std::uint32_t>(lanes[first].value);
  each_lane(present & (present - 1), [&](std::uint32_t number) {
    result = lanes[number].combine(result, static_cast<std::uint32_t>(lanes[number].value));
  });
  each_lane(present, [&](std::uint32_t number) { lanes[number].result = result; });
}

/// In f32, one term behind the other: a tensor core keeps more bits of some terms and fewer of others.
void deliver_product(Warp::Lanes& lanes, std::uint32_t present) {
  std::array<std::array<float, 16>, 16> a{};
  std::array<std::array<float, 16>, 8> b{};  // by column
  const Widen widen = lanes[0].widen;
  each_lane(present, [&](std::uint32_t number) {
    const WarpProduct& part = lanes[number].product;
    for (std::uint32_t i = 0; i < 8; ++i) {
      const std::uint32_t row = number / 4 + i / 2 % 2 * 8;
      const std::uint32_t depth = number % 4 * 2 + i % 2 + i / 4 * 8;
      a[row][depth] = widen(static_cast<std::uint16_t>(part.a[i / 2] >> i % 2 * 16));
    }
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t depth = number % 4 * 2 + i % 2 + i / 2 * 8;
      b[number / 4][depth] = widen(static_cast<std::uint16_t>(part.b[i / 2] >> i % 2 * 16));
    }
  });
  each_lane(present, [&](std::uint32_t number) {
    for (std::uint32_t i = 0; i < 4; ++i) {
      float& sum = lanes[number].product.sums[i];
      const auto& row = a[number / 4 + i / 2 * 8];
      const auto& column = b[number % 4 * 2 + i % 2];
      for (std::size_t depth = 0; depth < row.size(); ++depth) sum += row[depth] * column[depth];
    }
  });
}

Warp::Lane& bring(Warp& warp, const Call& call, std::uint32_t mask, std::uint64_t value,
                  Warp::Deliver deliver) {
  Warp::Lane& lane = warp.own_lane();
  lane.call = &call;
  lane.mask = mask;
  lane.value = value;
  lane.deliver = deliver;
  return lane;
}

}  // namespace

void block_barrier(const Call& call) {
  here().barrier().arrive(call, 0);
}
int block_sum(const Call& call, int value) {
  return here().barrier().arrive(call, value);
}

std::uint64_t warp_shuffle(const Call& call, std::uint32_t mask, std::uint64_t value, int source) {
  Warp& warp = here().warp();
  Warp::Lane& lane = bring(warp, call, mask, value, deliver_shuffle);
  lane.source = source;
  return warp.meet();
}

std::uint32_t warp_ballot(const Call& call, std::uint32_t mask, bool predicate) {
  Warp& warp = here().warp();
  bring(warp, call, mask, predicate, deliver_ballot);
  return static_cast<std::uint32_t>(warp.meet());
}

std::uint32_t warp_match(const Call& call, std::uint32_t mask, std::uint64_t value) {
  Warp& warp = here().warp();
  bring(warp, call, mask, value, deliver_match);
  return static_cast<std::uint32_t>(warp.meet());
}

std::uint32_t warp_reduce(const Call& call, std::uint32_t mask, std::uint32_t value, Combine combine) {
  Warp& warp = here().warp();
  Warp::Lane& lane = bring(warp, call, mask, value, deliver_reduction);
  lane.combine = combine;
  return static_cast<std::uint32_t>(warp.meet());
}

void warp_product(const Call& call, WarpProduct& product, Widen widen) {
  Warp& warp = here().warp();
  Warp::Lane& lane = bring(warp, call, 0xffffffffU, 0, deliver_product);
  lane.product = product;
  lane.widen = widen;
  warp.meet();
  product.sums = lane.product.sums;
}

void warp_barrier(const Call& call, std::uint32_t mask) {
  Warp& warp = here().warp();
  bring(warp, call, mask, 0, nullptr);
  warp.meet();
}

int lane_index() {
  return static_cast<int>(here().scheduler().current() % limits::warp_threads);
}

void yield_thread() {
  here().scheduler().yield();
}

void* dynamic_shared_memory(const Site& site) {
  SharedMemory& memory = here().shared_memory();
  if (memory.dynamic_bytes() == 0) {
    kernel_mistake(
        "no dynamic shared memory",
        "uses it at " + site.text() + ", but the launch gave it 0 bytes: give the launch its size");
  }
  return memory.dynamic();
}

void use_static_shared(std::byte* data, std::size_t bytes, std::size_t guard_bytes) {
  SharedMemory& memory = here().shared_memory();
  memory.use_static(data, bytes, guard_bytes);
  const std::size_t most = here().grid().static_bytes;
  if (memory.static_bytes() <= most) return;
  kernel_mistake(
      "too much shared memory",
      "uses " + std::to_string(memory.static_bytes()) + " bytes of static shared memory, " +
          std::to_string(most) +
          " are left by its dynamic shared memory, or by what cudaFuncSetAttribute granted: use less");
}

void keep_copy(const BegunCopy& copy) {
  Multiprocessor& multiprocessor = here();
  multiprocessor.copies().add(multiprocessor.scheduler().current(), copy);
}

bool take_copy(BegunCopy& copy) {
  Multiprocessor& multiprocessor = here();
  return multiprocessor.copies().take(multiprocessor.scheduler().current(), copy);
}

void trap(const Call& call) {
  kernel_mistake("trap", "executes " + call_text(call, 0));
}

void misaligned_access(const void* address, std::size_t alignment, const Site& site) {
  throw KernelFault{cudaErrorMisalignedAddress, running_thread().value_or("the host") + " touches " +
                                                    hex(reinterpret_cast<std::uintptr_t>(address)) + " at " +
                                                    site.text() + " as something that lies at multiples of " +
                                                    std::to_string(alignment)};
}

void memory_fence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

}  // namespace simgpu
