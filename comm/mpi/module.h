#pragma once

#include "kernels/base/abi.h"

namespace lockstep::comm {

/// Room for an MPI_Request, whatever the library makes of it.
struct MpiRequest {
  void* handle = nullptr;
};

enum class MpiNumber : int { f32, f64 };

/// What liblockstep_mpi.so offers: the calls of MPI that Lockstep makes, all on MPI_COMM_WORLD, without
/// mpi.h's types. It is the one thing linked to libmpi, so a program maps MPI only when it loads this.
/// Functions that return int give 0 or an error code for `error_text`. A begun collective is done when `test`
/// says so; its memory stays in use till then.
struct MpiModule {
  AbiIdentity identity;

  /// MPI_Init_thread for calls from one thread at a time, with errors returned. At most once in a process.
  int (*start)();
  void (*finish)();
  /// In place of `finish` when collectives are unfinished: when the process ends, MPI_Abort ends all others
  /// with its exit code.
  void (*abort_at_exit)();
  int (*rank)();
  int (*size)();

  int (*begin_sum)(void* values, int count, MpiNumber type, MpiRequest* request);  ///< in place
  int (*begin_broadcast)(void* bytes, int count, int root, MpiRequest* request);
  /// `sizes` and `offsets`: bytes, one for each rank.
  int (*begin_gather)(const void* mine, int bytes, void* all, const int* sizes, const int* offsets,
                      MpiRequest* request);
  int (*begin_barrier)(MpiRequest* request);
  int (*test)(MpiRequest* request, int* done);

  /// Writes at most `room` characters and a zero.
  void (*error_text)(int error, char* text, int room);
};

inline AbiIdentity mpi_module_identity() {
  return abi_identity(sizes_of<MpiModule, MpiRequest>());
}

/// What gives it: `const MpiModule* lockstep_mpi_module()`.
inline constexpr const char* mpi_module_symbol = "lockstep_mpi_module";

}  // namespace lockstep::comm
