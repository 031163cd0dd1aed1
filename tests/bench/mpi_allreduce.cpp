// All-reduce of float32 by MPI, in place: median and best ms per size.
// usage: mpirun -np 2 mpi_allreduce

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <vector>

namespace {

// The bytes of the all-reduce table; gloo_allreduce.py has the same.
constexpr std::array<std::size_t, 7> sizes{64, 4U << 10, 400'000, 1'600'000, 4U << 20, 25U << 20, 64U << 20};
constexpr std::size_t warm_up = 3;

/// About a second for each size, whatever the machine.
std::size_t repetitions(std::size_t bytes) {
  return std::clamp<std::size_t>((256U << 20) / bytes, 10, 2000);
}

double all_reduce_seconds(std::vector<float>& values) {
  std::fill(values.begin(), values.end(), 1.0F);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);
  return MPI_Wtime() - begin;
}

/// Sorted times of the repetitions.
std::vector<double> time_all_reduce(std::size_t bytes) {
  std::vector<float> values(bytes / sizeof(float));
  for (std::size_t i = 0; i < warm_up; ++i) all_reduce_seconds(values);
  std::vector<double> seconds(repetitions(bytes));
  for (double& second : seconds) second = all_reduce_seconds(values);
  std::sort(seconds.begin(), seconds.end());
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const bool right = std::all_of(values.begin(), values.end(),
                                 [&](float value) { return value == static_cast<float>(ranks); });
  if (!right) {
    std::fprintf(stderr, "the sum of %zu bytes is wrong\n", bytes);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (const std::size_t bytes : sizes) {
    const auto seconds = time_all_reduce(bytes);
    if (rank == 0) {
      std::printf("%10zu bytes  median %9.4f ms  best %9.4f ms\n", bytes, seconds[seconds.size() / 2] * 1e3,
                  seconds.front() * 1e3);
    }
  }
  MPI_Finalize();
  return 0;
}
