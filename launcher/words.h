#pragma once

#include <array>
#include <string_view>

#include "kernels/base/typed_words.h"

namespace lockstep::launcher {

inline constexpr std::string_view ranks_of_node = "ranks on this node are given by --nproc_per_node=N";
inline constexpr std::string_view one_launch_a_node =
    "start one launch on each node: --nnodes=N --node_rank=r --master_addr=ADDRESS";

inline constexpr std::string_view filter_logs =
    "not in this version: give --tee=3 --log_dir=DIR, and grep in the ranks' files there";

/// What other launchers call our options, or what to type instead.
inline constexpr std::array field_words{
    FieldWord{"nproc", "nproc-per-node"},
    FieldWord{"nprocs", "nproc-per-node"},
    FieldWord{"gpus", "", "a rank for each GPU: --nproc_per_node=gpu, or the number"},
    FieldWord{"num-gpus", "", "a rank for each GPU: --nproc_per_node=gpu, or the number"},
    FieldWord{"world-size", "", ranks_of_node},
    FieldWord{"num-processes", "", ranks_of_node},
    FieldWord{"np", "", ranks_of_node},
    FieldWord{"-np", "", ranks_of_node},
    FieldWord{"-n", "", ranks_of_node},
    FieldWord{"ntasks", "", ranks_of_node},
    FieldWord{"nodes", "nnodes"},
    FieldWord{"num-nodes", "nnodes"},
    FieldWord{"num-machines", "nnodes"},
    FieldWord{"-N", "nnodes"},
    FieldWord{"machine-rank", "node-rank"},
    FieldWord{"main-process-ip", "master-addr"},
    FieldWord{"main-process-port", "master-port"},
    FieldWord{"host", "", one_launch_a_node},
    FieldWord{"-H", "", one_launch_a_node},
    FieldWord{"hostfile", "", one_launch_a_node},
    FieldWord{"use-env", "", "always done; leave it out"},
    FieldWord{"rank", "", "launch numbers the ranks; of several nodes give --node_rank"},
    FieldWord{"local-rank", "", "launch numbers the ranks; leave it out"},
    FieldWord{"virtual-local-rank", "", "not in this version; leave it out"},
    FieldWord{"run-path", "", "not in this version; name the script itself"},
    FieldWord{"duplicate-stdout-filters", "", filter_logs},
    FieldWord{"duplicate-stderr-filters", "", filter_logs},
    FieldWord{"print-completion", "", "not in this version; `launch --help` lists the options"},
};

}  // namespace lockstep::launcher
