#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "tests/simgpu/tests/nccl_ranks.h"
#include "tests/support/catch.h"

using namespace simgpu::testing;

namespace {

float value(int rank, std::size_t index) {
  const float scales[] = {1e-3F, 1.0F, 300.0F};
  return (static_cast<float>((index * 37 + static_cast<std::size_t>(rank) * 101) % 199) - 99.0F) *
         scales[(index + static_cast<std::size_t>(rank)) % 3];
}

template <class T>
std::vector<T> values_of(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = T(value(rank, i));
  return values;
}

/// In rank order, rounded to T after each addition.
template <class T>
T sum_of(int ranks, std::size_t index) {
  T total = T(value(0, index));
  for (int rank = 1; rank < ranks; ++rank) {
    total = T(static_cast<float>(total) + static_cast<float>(T(value(rank, index))));
  }
  return total;
}

template <>
double sum_of(int ranks, std::size_t index) {
  double total = value(0, index);
  for (int rank = 1; rank < ranks; ++rank) total += value(rank, index);
  return total;
}

template <class T>
void check_all_reduce(Rank& rank, ncclDataType_t type, std::size_t count, bool in_place) {
  T* const send = on_device(values_of<T>(rank.rank, count));
  T* const receive = in_place ? send : on_device(std::vector<T>(count));
  for (int repeat = 0; repeat < 2; ++repeat) {
    rank.complete(ncclAllReduce(send, receive, count, type, ncclSum, rank.comm, rank.stream));
    check(cudaStreamSynchronize(rank.stream));
    const auto got = to_host(receive, count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto expected = static_cast<double>(sum_of<T>(rank.ranks, i));
      require(static_cast<double>(got[i]) == expected, "element " + std::to_string(i));
    }
    if (in_place) break;
  }
}

}  // namespace

TEST_CASE("all-reduce sums in rank order, whatever the size and type", "[simgpu]") {
  const int ranks = GENERATE(1, 2, 4, 8);
  const ncclUniqueId id = fresh_id();
  const auto outcomes = run_ranks(ranks, [&](int rank) {
    Rank own(id, rank, ranks);
    for (const std::size_t count : {1, 7, 1000, 65536, 65537, 300001}) {
      check_all_reduce<float>(own, ncclFloat32, count, count % 2 == 0);
    }
    check_all_reduce<double>(own, ncclFloat64, 50001, false);
    check_all_reduce<__nv_bfloat16>(own, ncclBfloat16, 150001, true);
    check_all_reduce<__half>(own, ncclFloat16, 150001, false);
    own.close();
  });
  CHECK(complaints(outcomes) == "");
}

TEST_CASE("reduce-scatter, all-gather, reduce and broadcast, apart and in place", "[simgpu]") {
  const int ranks = GENERATE(2, 4, 8);
  const ncclUniqueId id = fresh_id();
  const auto outcomes = run_ranks(ranks, [&](int rank) {
    Rank own(id, rank, ranks);
    const auto all = static_cast<std::size_t>(ranks);
    const auto mine = static_cast<std::size_t>(rank);
    const std::size_t count = 70001;
    for (const bool in_place : {false, true}) {
      float* const send = on_device(values_of<float>(rank, all * count));
      float* const part = in_place ? send + mine * count : on_device(std::vector<float>(count));
      own.complete(ncclReduceScatter(send, part, count, ncclFloat32, ncclSum, own.comm, own.stream));
      const auto sums = to_host(part, count);
      for (std::size_t i = 0; i < count; ++i) {
        require(sums[i] == sum_of<float>(ranks, mine * count + i), "reduce-scatter " + std::to_string(i));
      }

      float* const gathered = on_device(std::vector<float>(all * count));
      float* const own_part = in_place ? gathered + mine * count : on_device(sums);
      check(cudaMemcpy(own_part, sums.data(), count * sizeof(float), cudaMemcpyHostToDevice));
      own.complete(ncclAllGather(own_part, gathered, count, ncclFloat32, own.comm, own.stream));
      const auto everything = to_host(gathered, all * count);
      for (std::size_t i = 0; i < all * count; ++i) {
        require(everything[i] == sum_of<float>(ranks, i), "all-gather " + std::to_string(i));
      }

      const int root = ranks - 1;
      float* const input = on_device(values_of<float>(rank, count));
      const bool is_root = rank == root;
      // NCCL looks at the result's address on the root alone.
      float* const result = in_place ? input : is_root ? on_device(std::vector<float>(count)) : nullptr;
      own.complete(ncclReduce(input, result, count, ncclFloat32, ncclSum, root, own.comm, own.stream));
      const auto reduced = to_host(is_root ? result : input, count);
      for (std::size_t i = 0; i < count; ++i) {
        const float expected = is_root ? sum_of<float>(ranks, i) : value(rank, i);
        require(reduced[i] == expected, "reduce " + std::to_string(i));
      }

      float* const source = on_device(values_of<float>(rank, count));
      float* const target = in_place ? source : on_device(std::vector<float>(count));
      own.complete(ncclBroadcast(source, target, count, ncclFloat32, root, own.comm, own.stream));
      require(to_host(target, count) == values_of<float>(root, count), "broadcast");
    }
    own.close();
  });
  CHECK(complaints(outcomes) == "");
}

TEST_CASE("blocking communicators and groups of calls", "[simgpu]") {
  const int ranks = 3;
  const ncclUniqueId id = fresh_id();
  const auto outcomes = run_ranks(ranks, [&](int rank) {
    setenv("SIMGPU_DEVICES", "3", 1);
    check(cudaSetDevice(rank));
    ncclComm_t comm = nullptr;
    check(ncclCommInitRank(&comm, ranks, id, rank));
    float* const a = on_device(values_of<float>(rank, 1000));
    float* const b = on_device(values_of<float>(rank + 1, 10));
    check(ncclGroupStart());
    check(ncclAllReduce(a, a, 1000, ncclFloat32, ncclSum, comm, nullptr));
    check(ncclGroupStart());
    check(ncclBroadcast(b, b, 10, ncclFloat32, 0, comm, nullptr));
    check(ncclGroupEnd());
    require(to_host(a, 1000) == values_of<float>(rank, 1000), "begun before the end of the group");
    check(ncclGroupEnd());
    require(to_host(a, 1000)[999] == sum_of<float>(ranks, 999), "all-reduce");
    require(to_host(b, 10) == values_of<float>(1, 10), "broadcast");

    int number = -1;
    check(ncclCommCount(comm, &number));
    require(number == ranks, "count");
    check(ncclCommUserRank(comm, &number));
    require(number == rank, "rank");
    check(ncclCommCuDevice(comm, &number));
    require(number == rank, "device");
    check(ncclCommDestroy(comm));
  });
  CHECK(complaints(outcomes) == "");
}
