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
    Part{"comm/world/world.h", ""},
    Part{"kernels/base/signals_blocked.h", ""},
    Part{"comm/world", "kernels/base comm/world/world.h"},
    Part{"comm/store", "kernels/base comm/world/world.h kernels/base/signals_blocked.h comm/world"},
    Part{"comm", "kernels"},
    Part{"data", "kernels"},
    Part{"model", "kernels"},
    Part{"runtime", "kernels comm data model"},
    Part{"launcher", "kernels/base comm/world/world.h comm/world comm/store"},
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
};

/// What lists every op, and the few files that may include it: they are compiled again for each new op.
inline constexpr std::string_view op_lists =
    "kernels/ops.def kernels/op_headers.h kernels/spec.h kernels/backend.h";
inline constexpr std::string_view op_list_readers =
    "kernels/spec.h kernels/backend.h kernels/abi.cpp kernels/dispatch.cpp kernels/cpu/device.cpp "
    "kernels/cuda/device.cpp kernels/cpu/simd/select.cpp kernels/cpu/simd/table.cpp "
    "kernels/cpu/simd/table.h tests/ops";

/// Where #if and #ifdef may stand: code for one instruction set or one vendor's library (limits measures the
/// library itself). CMake chooses it, callers never do.
inline constexpr std::string_view conditional_folders =
    "kernels/cpu kernels/cuda kernels/no_cuda kernels/inline.h comm/nccl comm/no_nccl tests/simgpu "
    "tests/support "
    "tests/bench/limits";

/// Folders that open with a README.md.
inline constexpr std::string_view top_folders = "kernels comm data model runtime launcher tests deploy";

inline constexpr int most_lines = 600;

}  // namespace lockstep::structure
