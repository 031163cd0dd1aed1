// liblockstep_mpi.so: see module.h.
#include "comm/mpi/module.h"
#include "kernels/base/export.h"

#include <mpi.h>

#include <cstdlib>
#include <cstring>

namespace lockstep::comm {
namespace {

static_assert(sizeof(MPI_Request) <= sizeof(MpiRequest::handle));

/// Starts a collective by `begin(MPI_Request*)` and keeps its request.
template <class Begin>
int begin_request(MpiRequest* request, Begin begin) {
  MPI_Request own = MPI_REQUEST_NULL;
  const int error = begin(&own);
  std::memcpy(&request->handle, &own, sizeof(own));
  return error;
}

int start() {
  int level = MPI_THREAD_SINGLE;
  if (const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level)) return error;
  if (level < MPI_THREAD_SERIALIZED) return MPI_ERR_UNSUPPORTED_OPERATION;
  return MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

void finish() {
  MPI_Finalize();
}

void abort_at_exit() {
  constexpr int lost_peer = 5;
  on_exit([](int status, void*) { MPI_Abort(MPI_COMM_WORLD, status == 0 ? lost_peer : status); }, nullptr);
}

int rank() {
  int result = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &result);
  return result;
}

int size() {
  int result = -1;
  MPI_Comm_size(MPI_COMM_WORLD, &result);
  return result;
}

int begin_sum(void* values, int count, MpiNumber type, MpiRequest* request) {
  const MPI_Datatype mpi_type = type == MpiNumber::f32 ? MPI_FLOAT : MPI_DOUBLE;
  return begin_request(request, [&](MPI_Request* own) {
    return MPI_Iallreduce(MPI_IN_PLACE, values, count, mpi_type, MPI_SUM, MPI_COMM_WORLD, own);
  });
}

int begin_broadcast(void* bytes, int count, int root, MpiRequest* request) {
  return begin_request(request, [&](MPI_Request* own) {
    return MPI_Ibcast(bytes, count, MPI_BYTE, root, MPI_COMM_WORLD, own);
  });
}

int begin_gather(const void* mine, int bytes, void* all, const int* sizes, const int* offsets,
                 MpiRequest* request) {
  return begin_request(request, [&](MPI_Request* own) {
    return MPI_Iallgatherv(mine, bytes, MPI_BYTE, all, sizes, offsets, MPI_BYTE, MPI_COMM_WORLD, own);
  });
}

int begin_barrier(MpiRequest* request) {
  return begin_request(request, [](MPI_Request* own) { return MPI_Ibarrier(MPI_COMM_WORLD, own); });
}

int test(MpiRequest* request, int* done) {
  MPI_Request own = MPI_REQUEST_NULL;
  std::memcpy(&own, &request->handle, sizeof(own));
  const int error = MPI_Test(&own, done, MPI_STATUS_IGNORE);
  std::memcpy(&request->handle, &own, sizeof(own));
  return error;
}

void error_text(int error, char* text, int room) {
  char whole[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(error, whole, &length);
  std::strncpy(text, whole, static_cast<std::size_t>(room));
  text[room] = '\0';
}

}  // namespace
}  // namespace lockstep::comm

extern "C" LOCKSTEP_API const lockstep::comm::MpiModule* lockstep_mpi_module() {
  using namespace lockstep::comm;
  static const MpiModule module{.identity = mpi_module_identity(),
                                .start = start,
                                .finish = finish,
                                .abort_at_exit = abort_at_exit,
                                .rank = rank,
                                .size = size,
                                .begin_sum = begin_sum,
                                .begin_broadcast = begin_broadcast,
                                .begin_gather = begin_gather,
                                .begin_barrier = begin_barrier,
                                .test = test,
                                .error_text = error_text};
  return &module;
}
