#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/matmul.h"
#include "model/graph.h"

namespace lockstep::runtime {

/// How the ops of a plan compute: the precision of products, and the algorithm where a device offers several.

/// `--matmul-precision` and `--conv-precision`, behind `differentiate` and all that fuses: every matrix
/// product of the graph, forward and backward, may round its factors to `products`, every convolution to
/// `convolutions`.
void set_precision(model::Graph& graph, kernels::MatmulPrecision products,
                   kernels::MatmulPrecision convolutions);

/// As PyTorch has it: TF32 on a GPU, IEEE f32 on a CPU.
kernels::MatmulPrecision default_conv_precision(const kernels::Device& device);

/// What `--benchmark` selected, by "layer op": the name of the algorithm. Rank 0 measures, all ranks apply.
using SelectedAlgorithms = std::map<std::string, std::string>;

/// The fastest algorithms of ops, by what an op computes: its attributes, types and layouts.
using KnownAlgorithms = std::map<std::string, std::string>;

struct Benchmark {
  SelectedAlgorithms selected;
  std::size_t timed = 0;  ///< of the ops; for the others it was known
};

/// Equal for ops that take equally long on a device.
std::string description_of(const model::Op& op, const kernels::KernelIo& io);

/// Selects the fastest algorithm of every op of the graph for which the device offers several. What is not
/// `known`, or not offered, is timed on scratch memory (best of a few tries) and known from then on. The
/// counterpart of cudnn.benchmark, on the CPU too.
Benchmark benchmark_algorithms(const model::Graph& graph, kernels::Device& device, KnownAlgorithms& known);

/// Behind `assign_layouts`, since what a device offers depends on layouts. Returns "layer op: algorithm" of
/// those that the device does not offer; these ops keep the library's own selection.
std::vector<std::string> apply_selected_algorithms(model::Graph& graph, const kernels::Device& device,
                                                   const SelectedAlgorithms& selected);

/// As text, to be sent to the other ranks.
std::string to_text(const SelectedAlgorithms& selected);
SelectedAlgorithms selected_algorithms_from(const std::string& text);

}  // namespace lockstep::runtime
