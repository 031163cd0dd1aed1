#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/simgpu/engine/launch_checks.h"
#include "tests/simgpu/engine/pointer_struct.h"
#include "tests/simgpu/engine/run_grid.h"
#include "tests/simgpu/engine/site.h"
#include "tests/simgpu/operation.h"

namespace simgpu {

/// A grid's extent, and, by its default argument, the line of the launch.
struct LaunchExtent {
  // NOLINTBEGIN(google-explicit-constructor): written as plain numbers and dim3 at every launch
  LaunchExtent(dim3 extent, Site place = Site::here()) : blocks(extent), site(place) {}
  template <std::integral Integer>
  LaunchExtent(Integer x, Site place = Site::here()) : LaunchExtent(dim3(static_cast<unsigned>(x)), place) {}
  LaunchExtent(unsigned x, unsigned y, unsigned z = 1, Site place = Site::here())
      : LaunchExtent(dim3(x, y, z), place) {}
  // NOLINTEND

  dim3 blocks;
  Site site;
};

/// Adds what a kernel touches through one of its arguments, a pointer or a struct of pointers alone: a const
/// one reads, another one reads and writes. In anything else each word that is an address of device memory,
/// allocated or freed, counts as a pointer that writes, so clear the unused entries of a list of pointers.
template <typename T>
void add_accesses(const T& argument, std::vector<Access>& accesses) {
  if constexpr (std::is_pointer_v<T>) {
    add_pointer(argument, !std::is_const_v<std::remove_pointer_t<T>>, accesses);
  } else if constexpr (is_pointer_struct<T>()) {
    for_each_pointer(argument, [&](const void* pointer, bool writes, std::size_t) {
      add_pointer(pointer, writes, accesses);
    });
  } else if constexpr (sizeof(T) >= sizeof(void*)) {
    std::array<std::uintptr_t, sizeof(T) / sizeof(std::uintptr_t)> words;
    std::memcpy(words.data(), &argument, sizeof(words));
    for (const std::uintptr_t word : words) add_word(word, accesses);
  }
}

/// A pointer to what the kernel loads and stores must be aligned as that.
template <typename T>
void check_argument(const T& argument, const Grid& grid) {
  if constexpr (std::is_pointer_v<T> && std::is_object_v<std::remove_pointer_t<T>>) {
    check_alignment(argument, alignof(std::remove_pointer_t<T>), grid);
  } else if constexpr (is_pointer_struct<T>()) {
    for_each_pointer(argument, [&](const void* pointer, bool, std::size_t alignment) {
      check_alignment(pointer, alignment, grid);
    });
  }
}

/// kernel<<<grid, block, shared_bytes, stream>>>(arguments...). An error that CUDA would have found at the
/// launch is returned.
template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), LaunchExtent grid, dim3 block, std::size_t shared_bytes,
                   cudaStream_t stream, Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                "as many arguments as the kernel has parameters");
  static_assert((!std::is_reference_v<Parameters> && ...), "a kernel's parameters are copied to the device");
  static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                "a kernel's arguments are copied byte by byte: they must be trivially copyable");
  static_assert((sizeof(Parameters) + ... + 0) <= limits::argument_bytes, "at most 32764 bytes of arguments");

  Grid shape{grid.blocks, block, shared_bytes, {}, grid.site.text()};
  const auto* address = reinterpret_cast<const void*>(kernel);
  if (const cudaError_t error = check_launch(address, shape); error != cudaSuccess) return error;
  shape.name = kernel_name(address);
  const std::tuple<Parameters...> copies(static_cast<Parameters>(std::forward<Arguments>(arguments))...);
  Operation operation{Operation::Kind::kernel, shape.name, {}, {}, shape.site};
  std::apply([&](const auto&... copy) { (check_argument(copy, shape), ...); }, copies);
  std::apply([&](const auto&... copy) { (add_accesses(copy, operation.accesses), ...); }, copies);
  operation.run = [kernel, shape = std::move(shape), copies] {
    // The loader makes a thread's copy of a library's thread-local variables, shared memory among them, when
    // the first one is used: here, before the grid's threads run, not by one of them.
    [[maybe_unused]] static thread_local volatile bool made;
    made = true;
    run_grid(shape, [&] { std::apply(kernel, copies); });
    return true;
  };
  return enqueue(stream, std::move(operation));
}

}  // namespace simgpu
