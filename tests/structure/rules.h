#pragma once

#include <array>
#include <string_view>

namespace lockstep::structure {

/// Who may include whom. Names are folders or single headers from the repository root and stand for all
/// below them; the longest name that fits a file is its part. A part may also include itself and all below
/// it.
struct Part {
  std::string_view name;
  std::string_view may_include;  ///< separated by spaces
};

inline constexpr std::array parts{
    Part{"kernels/base", ""},
    Part{"kernels", ""},
    Part{"kernels/cuda/portability.h", "kernels tests/simgpu"},  // the compiler of a simulated build

    // The order: world < net < store < rendezvous; reduce; watchdog < shm < tcp.
    Part{"comm/world", "kernels/base"},
    Part{"comm/polling.h", "kernels/base"},
    Part{"comm/net", "kernels/base comm/world comm/polling.h"},
    Part{"comm/store", "kernels/base comm/world comm/polling.h comm/net"},
    Part{"comm/reduce", "kernels/base"},
    Part{"comm/watchdog", "kernels/base"},
    Part{"comm/watchdog/failure_report.h", "kernels/base"},
    Part{"comm/arena.h", "kernels/base"},
    Part{"comm/communicator.h", "kernels comm/world comm/arena.h comm/watchdog/failure_report.h"},
    Part{"comm/make_communicator.h", "kernels/base comm/world"},
    Part{"comm/decorated_communicator.h", "comm/communicator.h"},
    Part{"comm/rendezvous", "kernels/base comm/world comm/net comm/store comm/make_communicator.h"},
    Part{"comm/shm",
         "kernels/base comm/world comm/reduce comm/watchdog comm/polling.h comm/arena.h comm/communicator.h "
         "comm/make_communicator.h"},
    Part{"comm/tcp",
         "kernels/base comm/world comm/net comm/store comm/rendezvous comm/reduce comm/watchdog comm/shm "
         "comm/polling.h comm/arena.h comm/communicator.h comm/make_communicator.h"},
    Part{"comm/mpi",
         "kernels/base comm/world comm/polling.h comm/arena.h comm/communicator.h comm/make_communicator.h"},
    Part{"comm/no_mpi", "kernels/base comm/mpi"},
    Part{"comm/nccl",
         "kernels comm/polling.h comm/arena.h comm/communicator.h comm/decorated_communicator.h"},
    Part{"comm/no_nccl", "kernels/base comm/nccl"},
    Part{"comm/staged", "kernels comm/decorated_communicator.h"},
    Part{"comm", "kernels"},

    Part{"data/curl", "kernels/base"},
    Part{"data/files", "kernels/base data/curl"},
    Part{"data", "kernels"},
    Part{"model", "kernels"},

    Part{"runtime/plan", "kernels comm model"},
    Part{"runtime/performance", "kernels comm model runtime/plan"},
    Part{"runtime/step", "kernels comm data model runtime/plan"},
    Part{"runtime/weights", "kernels data runtime/plan runtime/step"},
    Part{"runtime/generate", "kernels data model runtime/plan runtime/step runtime/options"},
    Part{"runtime/options", "kernels comm data model runtime/plan"},
    Part{"runtime/plugin", "kernels data model"},
    Part{"runtime/machine", "kernels comm runtime/options"},
    Part{"runtime/output", "kernels comm runtime/step"},
    Part{"runtime/checkpoint", "kernels comm runtime/plan runtime/weights runtime/options"},
    Part{"runtime/run",
         "kernels comm data model runtime/plan runtime/performance runtime/step runtime/weights "
         "runtime/options runtime/plugin runtime/machine runtime/output runtime/checkpoint"},
    Part{"runtime", "kernels comm data model"},

    Part{"launcher", "kernels/base comm/world comm/net comm/store"},
    Part{"tests/simgpu", "kernels tests"},
    Part{"tests", "kernels comm data model runtime launcher"},
};

/// Libraries that only some folders may know, by how their headers' names begin.
struct Vendor {
  std::string_view header;
  std::string_view folders;
};

inline constexpr std::array vendors{
    Vendor{"dnnl", "kernels/cpu kernels/layout.cpp tests"},
    Vendor{"cuda", "kernels/cuda comm/nccl tests/simgpu"},
    Vendor{"cublas", "kernels/cuda"},
    Vendor{"cudnn", "kernels/cuda"},
    Vendor{"nccl", "comm/nccl tests/simgpu"},
    Vendor{"mpi.h", "comm/mpi tests/bench"},
    Vendor{"curl/curl.h", "data/curl"},
    Vendor{"jpeglib.h", "data/pictures tests/unit/data tests/bench/loader"},
    Vendor{"jerror.h", "data/pictures"},
    Vendor{"spng.h", "data/pictures tests/unit/data"},
    Vendor{"utf8proc.h", "data/text"},
    Vendor{"openssl/ssl.h", "comm/net tests/unit/comm"},
};

/// What lists every op, and the few files that may include it: they are compiled again for each new op.
inline constexpr std::string_view op_lists =
    "kernels/ops.def kernels/op_headers.h kernels/spec.h kernels/backend.h";
inline constexpr std::string_view op_list_readers =
    "kernels/spec.h kernels/backend.h kernels/abi.cpp kernels/dispatch.cpp kernels/cpu/device.cpp "
    "kernels/cuda/device.cpp kernels/cuda/described_device.cpp kernels/cpu/simd/select.cpp "
    "kernels/cpu/simd/table.cpp "
    "kernels/cpu/simd/table.h tests/ops";

/// Words of ours that the field has other words for, and names that misled; nothing is called so any more.
inline constexpr std::string_view retired_names =
    "Whereabouts CheckpointShelf shelf RunPlace goes_on drifted_ranks take_short_turns Duties takers Agency "
    "SumTree tree_sum RankCard DeviceCard MeetingHost MeetingGuest Rounds RankLine Doorman Lobby Greeting "
    "turn_away LossHandler Outbox Outside StoreOutside decisive_ending works_by_itself on_streams "
    "exchange_now settle_layouts settle_graphs lies_in lie_like ProductTensors library_op library_kernel "
    "BatchFeed "
    "ParameterAccess RunPosition RunDecisions GraphPolicy LaunchGraph ExactSampler naps mend "
    "SimdKernel simd_kernel simd_of has_tiles set_rate";

/// Where #if and #ifdef may stand: code for one instruction set or one vendor's library (limits measures the
/// library itself). CMake chooses it, callers never do.
inline constexpr std::string_view conditional_folders =
    "kernels/cpu kernels/cuda kernels/no_cuda kernels/pointwise_functions.h comm/nccl comm/no_nccl "
    "tests/simgpu "
    "tests/support "
    "tests/bench/limits";

/// Folders that open with a README.md.
inline constexpr std::string_view top_folders = "kernels comm data model runtime launcher tests deploy";

inline constexpr int most_lines = 300;

}  // namespace lockstep::structure
