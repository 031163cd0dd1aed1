#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/simgpu/tests/engine_support.h"

#include "tests/simgpu/machine/machine.h"

using namespace simgpu;

namespace scale {

__global__ void by(const float* in, float* out, float factor) {
  out[threadIdx.x] = factor * in[threadIdx.x];
}

}  // namespace scale

namespace {

struct Pointers {
  int count;
  float* first;
  const float* second;
};
__global__ void clear(Pointers pointers) {
  if (pointers.count > 0) pointers.first[threadIdx.x] = 0;
}

/// As kernels take their operands; `to` alone is written.
struct Operands {
  struct Pair {
    const double* even;
    const std::byte* odd;
  };
  const float* from[2];
  Pair pair;
  float* to;
};
__global__ void take(Operands) {}

__global__ void nothing() {}

__global__ void fill_static() {
  STATIC_SHARED(char, tile, 1024);
  tile[threadIdx.x] = 1;
}

template <class Vector>
__global__ void load_vector(std::byte* from) {
  const Vector value = *aligned_cast<const Vector>(from);
  static_cast<void>(value);
}
template <class Vector>
__global__ void store_vector(std::byte* to) {
  *aligned_cast<Vector>(to) = Vector{};
}

template <class Word>
__global__ void copy_word(std::byte* from, std::size_t offset_to) {
  STATIC_SHARED(uint4, tile, 2);
  auto* const to = reinterpret_cast<Word*>(reinterpret_cast<std::byte*>(tile) + offset_to);
  begin_copy(to, reinterpret_cast<const Word*>(from), true);
  wait_for_copies();
}

/// The machine with other settings, until the end; then as it was at the start of the process.
class OtherMachine {
 public:
  explicit OtherMachine(const Settings& settings) { restart_machine(settings); }
  ~OtherMachine() {
    restart_machine(settings_from_environment());
    cudaGetLastError();
  }
  OtherMachine(const OtherMachine&) = delete;
  OtherMachine& operator=(const OtherMachine&) = delete;
};

/// Device memory, freed at the end.
class Floats {
 public:
  explicit Floats(std::size_t count) { REQUIRE(cudaMalloc(&data_, count * sizeof(float)) == cudaSuccess); }
  ~Floats() { cudaFree(data_); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  operator float*() const { return static_cast<float*>(data_); }

 private:
  void* data_ = nullptr;
};

}  // namespace

TEST_CASE("a launched kernel computes in device memory") {
  const Floats in(4), out(4);
  const std::array values{1.0f, 2.0f, 3.0f, 4.0f};
  REQUIRE(cudaMemcpy(in, values.data(), sizeof(values), cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(launch(scale::by, 1, 4, 0, nullptr, in, out, 3) == cudaSuccess);
  std::array<float, 4> result{};
  REQUIRE(cudaMemcpy(result.data(), out, sizeof(result), cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(result == std::array{3.0f, 6.0f, 9.0f, 12.0f});
}

TEST_CASE("what a kernel touches is taken from its arguments") {
  const Floats one(4), other(4);
  std::vector<Access> accesses;
  add_accesses<const float*>(one, accesses);
  add_accesses<float*>(other, accesses);
  add_accesses<float*>(nullptr, accesses);
  add_accesses<long>(7, accesses);
  add_accesses<Pointers>({1, one, other}, accesses);
  REQUIRE(accesses.size() == 4);
  CHECK((accesses[0].begin == one && !accesses[0].writes));
  CHECK((accesses[1].begin == other && accesses[1].writes));
  CHECK((accesses[2].begin == one && accesses[2].writes));
  CHECK((accesses[3].begin == other && accesses[3].writes));
  CHECK((!accesses[0].guessed && !accesses[1].guessed && accesses[2].guessed && accesses[3].guessed));
}

TEST_CASE("of a struct of pointers alone each member counts as a pointer") {
  struct Mixed {
    float* to;
    long count;
  };
  static_assert(is_pointer_struct<Operands>());
  static_assert(!is_pointer_struct<Mixed>() && !is_pointer_struct<Pointers>());
  const Floats one(4), other(4);
  std::vector<Access> accesses;
  add_accesses<Operands>({{one, nullptr}, {}, other}, accesses);
  REQUIRE(accesses.size() == 2);
  CHECK((accesses[0].begin == one && !accesses[0].writes && !accesses[0].guessed));
  CHECK((accesses[1].begin == other && accesses[1].writes && !accesses[1].guessed));
}

TEST_CASE("a launch that no GPU takes is refused, and cudaGetLastError tells") {
  cudaGetLastError();
  CHECK(launch(nothing, 1, 1025, 0, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(launch(nothing, 1, dim3(32, 32, 2), 0, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(launch(nothing, 1, dim3(1, 1, 65), 0, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(launch(nothing, 0, 32, 0, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(launch(nothing, {1, 65536}, 32, 0, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(launch(nothing, {2, 65535}, 1, 0, nullptr) == cudaSuccess);
  CHECK(launch(nothing, 1, 32, 48 << 10, nullptr) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("more than 48 KiB of shared memory must be asked for") {
  CHECK(launch(clear, 1, 32, 64 << 10, nullptr, Pointers{}) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(clear, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10) == cudaSuccess);
  CHECK(launch(clear, 1, 32, 64 << 10, nullptr, Pointers{}) == cudaSuccess);
  CHECK(launch(clear, 1, 32, (64 << 10) + 1, nullptr, Pointers{}) == cudaErrorInvalidValue);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("static shared memory lies beside what a kernel was granted, within its device's") {
  struct Limit {
    int capability, most_kib;
  };
  const auto [capability, most_kib] =
      GENERATE(Limit{75, 64}, Limit{80, 163}, Limit{86, 99}, Limit{90, 227}, Limit{100, 227}, Limit{120, 99});
  CAPTURE(capability);
  const OtherMachine machine({.capability = capability});
  const int most = most_kib << 10;
  int told = 0;
  CHECK(cudaDeviceGetAttribute(&told, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0) == cudaSuccess);
  CHECK(told == most);
  const auto grant = [](int bytes) {
    return cudaFuncSetAttribute(fill_static, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  const auto mistake = [] { return test::mistake_in([] { launch(fill_static, 1, 32, 0, nullptr); }); };
  CHECK(grant(most + 1) == cudaErrorInvalidValue);
  CHECK(grant(most - 1023) == cudaSuccess);
  CHECK(mistake().kind == "too much shared memory");
  CHECK(grant(most - 1024) == cudaSuccess);
  CHECK(mistake().kind == "none");
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("a pointer must be aligned as what it points to") {
  const Floats floats(4);
  const auto* const bytes = reinterpret_cast<const std::byte*>(static_cast<const float*>(floats));
  const auto launch_at = [&](std::size_t offset) {
    const auto* const from = reinterpret_cast<const float*>(bytes + offset);
    return test::mistake_in([&] { launch(scale::by, 1, 1, 0, nullptr, from, floats, 3); });
  };
  const auto launch_in_struct = [&](std::size_t offset) {
    const Operands operands{{}, {reinterpret_cast<const double*>(bytes + offset), bytes + 1}, floats};
    return test::mistake_in([&] { launch(take, 1, 1, 0, nullptr, operands); });
  };
  CHECK(launch_at(4).kind == "none");
  CHECK(launch_in_struct(8).kind == "none");
  const auto seen = launch_at(2);
  CHECK(seen.kind == "misaligned pointer");
  CHECK(seen.text.find("multiples of 4") != std::string::npos);
  const auto in_struct = launch_in_struct(4);
  CHECK(in_struct.kind == "misaligned pointer");
  CHECK(in_struct.text.find("multiples of 8") != std::string::npos);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEMPLATE_TEST_CASE("a vector at an address that is no multiple of its alignment ends the kernel, and CUDA",
                   "", __half2, float2, float4, uint2, uint4) {
  const std::size_t offset = GENERATE(0U, 1U, 2U);  // in halves of the vector
  const bool stores = GENERATE(false, true);
  const OtherMachine machine({});
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, 3 * sizeof(TestType)) == cudaSuccess);
  auto* const at = static_cast<std::byte*>(block) + offset * sizeof(TestType) / 2;
  launch(stores ? store_vector<TestType> : load_vector<TestType>, 1, 1, 0, nullptr, at);
  const cudaError_t expected = offset == 1 ? cudaErrorMisalignedAddress : cudaSuccess;
  CHECK(cudaDeviceSynchronize() == expected);
  CHECK(launch(nothing, 1, 1, 0, nullptr) == expected);
  CHECK(cudaMalloc(&block, 4) == expected);
}

TEMPLATE_TEST_CASE("a copy from or to an address that is no multiple of its bytes ends the kernel, and CUDA",
                   "", float, uint4) {
  const std::size_t offset_from = GENERATE(0U, 1U, 2U);  // in halves of the word
  const std::size_t offset_to = GENERATE(0U, 1U, 2U);
  constexpr std::size_t step = sizeof(TestType) / 2;
  const OtherMachine machine({});
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, 3 * sizeof(TestType)) == cudaSuccess);
  launch(copy_word<TestType>, 1, 1, 0, nullptr, static_cast<std::byte*>(block) + offset_from * step,
         offset_to * step);
  const bool is_aligned = offset_from != 1 && offset_to != 1;
  CHECK(cudaDeviceSynchronize() == (is_aligned ? cudaSuccess : cudaErrorMisalignedAddress));
}

TEST_CASE("reports name the kernel and the line of its launch") {
  CHECK(kernel_name(reinterpret_cast<const void*>(&scale::by)) == "scale::by");
  CHECK(LaunchExtent(1).site.text().find("engine_launch.cpp:") != std::string::npos);
}
