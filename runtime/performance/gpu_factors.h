#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep::runtime {

/// What kernels on a GPU are, as far as their speed goes.
enum class WorkKind {
  convolution,
  grouped_convolution,
  product,
  attention,  ///< on f32 units
  tensor_core_attention,
  recurrence,
  pass,    ///< over memory: everything else
  update,  ///< of parameters by the optimizer
};

/// The share of what the maker specifies (GpuFigures) that kernels of a kind reach. The same for all models
/// and GPUs. A number changes with a measurement or a new source alone, never to make a prediction meet a
/// figure.
struct Efficiency {
  WorkKind kind;
  std::string_view name;
  double of_flops;
  double of_memory;
  std::string_view flops_source;
  std::string_view memory_source;
};

inline constexpr std::array efficiencies{
    Efficiency{WorkKind::convolution, "convolution", 0.50, 0.78,
               "estimate: a roofline of ResNet-50 of which MLPerf Training v4.0's H100 run reaches 0.86",
               "the same estimate, for convolutions that memory limits"},
    Efficiency{
        WorkKind::grouped_convolution, "grouped convolution", 0.05, 0.40,
        "estimate: a group fills a small part of a tensor core's tile",
        "estimate: ResNet-50 to MobileNetV3 in timm's RTX 3090 table is 1 : 2.24, not 1 : 18 as FLOPs"},
    Efficiency{WorkKind::product, "product", 0.65, 0.84,
               "estimate: timed cuBLASLt plans of GPT-2's shapes reach 550 to 700 of an H100's 989 TFLOP/s",
               "as a pass over memory"},
    Efficiency{WorkKind::attention, "attention", 0.25, 0.84,
               "estimate: 6 words of shared memory for 8 products (kernels/cuda/attention_tiles.h): a third "
               "at most, less softmax and barriers; on f32 units",
               "as a pass over memory"},
    Efficiency{
        WorkKind::tensor_core_attention, "half-type attention", 0.25, 0.84,
        "estimate: FlashAttention-2, of the same instructions, reaches 0.35 of an H100 (arXiv 2407.08608, "
        "abstract); without its asynchronous copies, and on smaller tiles, less",
        "as a pass over memory"},
    Efficiency{WorkKind::recurrence, "recurrence", 0.65, 0.84,
               "as a product: that each step's is small is told by its tiles", "as a pass over memory"},
    Efficiency{WorkKind::pass, "pass", 0.50, 0.84, "estimate: not every operation is a multiply-add",
               "coalesced loads reach 2.8 of an H100's 3.35 TB/s (mikamirai.com/blog/gpu-memory-bandwidth)"},
    Efficiency{WorkKind::update, "update", 0.50, 0.84, "as a pass", "as a pass over memory"},
};

static_assert(std::ranges::all_of(efficiencies, [](const Efficiency& e) {
  return &e - efficiencies.data() == static_cast<std::ptrdiff_t>(e.kind);
}));

constexpr const Efficiency& efficiency_of(WorkKind kind) {
  return efficiencies[static_cast<std::size_t>(kind)];
}

/// What the best attention reaches. Source: estimate, cuDNN's or FlashAttention-3's at 400 of an H100's 989
/// TFLOP/s, forward and backward.
inline constexpr double best_attention = 0.40;

/// What a product's result is cut into, each part the work of one multiprocessor: a result of few takes few,
/// however long its sums. Source: with it the steps of lstm and mlp on an H200 (tests/gpu/LEDGER.md,
/// 83164e10) are predicted to 2 and 14 %, without it to 35 and 28 %. Not in it: sums that a library splits
/// among several.
struct ProductTile {
  std::int64_t longer, shorter;
};
inline constexpr ProductTile tensor_core_tile{128, 64};
inline constexpr ProductTile f32_tile{64, 32};

/// What a launch in a graph takes beside its work, behind the one before it: to begin, to fetch the first
/// operands, to end. Source: a step of rnn on an H200 (tests/gpu/LEDGER.md, 83164e10), 0.74 ms for 276
/// launches of next to no work.
inline constexpr double least_kernel_seconds = 2.0e-6;

/// Around the kernels of a step: copies of step input and control block. Estimate: 10 to 15 us.
inline constexpr double step_overhead_seconds = 12e-6;

/// NCCL's all-reduce over NVLink: 365 to 370 of 450 GB/s (nccl-tests #212, ring, 8 x H100).
inline constexpr double nvlink_efficiency = 0.82;
/// The same over PCIe, where GPUs take turns on the root. Estimate.
inline constexpr double pcie_exchange_efficiency = 0.35;
/// The same between nodes, of what is left for payload. Estimate.
inline constexpr double link_efficiency = 0.9;
/// A copy of a batch from pinned memory. Estimate: 50 to 55 of 64 GB/s.
inline constexpr double pcie_copy_efficiency = 0.85;
/// Of an all-reduce of next to nothing: 19 us (Triton-distributed #57, 8 x H100, 128 bytes).
inline constexpr double exchange_latency_seconds = 19e-6;

/// Memory that is not planned: CUDA's context, libraries, graphs, NCCL's buffers. Estimate: NCCL 0.3 to 1.5
/// GB, context and libraries half a GB.
inline constexpr std::size_t unplanned_bytes = std::size_t{2} << 30;

/// Training on one GPU, or a GPU's share of several, that others have published: of the model as it stands,
/// and samples of that shape.
struct PublishedFigure {
  std::string_view model, sample, gpu, amp;
  double per_second;
  std::string_view unit;  ///< "samples" or "tokens"
  std::string_view source;
};

inline constexpr std::array published_figures{
    PublishedFigure{"resnet50", "3x224x224", "h200", "fp16", 7955, "samples",
                    "MLPerf Training v4.0, NVIDIA, 8 GPUs, MXNet, batch 400: an eighth"},
    PublishedFigure{"resnet50", "3x224x224", "h100", "fp16", 7157, "samples",
                    "MLPerf Training v4.0, NVIDIA, 8 GPUs, MXNet, batch 400: an eighth"},
    PublishedFigure{"resnet50", "3x224x224", "a100", "fp16", 2470, "samples",
                    "NVIDIA DeepLearningExamples, PyTorch 21.03, channels-last, batch 256"},
    PublishedFigure{"resnet50", "3x224x224", "rtx3090", "fp16", 1218, "samples",
                    "timm, benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv"},
    PublishedFigure{"resnet18", "3x224x224", "rtx3090", "fp16", 3482, "samples",
                    "timm, benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv, batch 512"},
    PublishedFigure{"gpt2", "1024", "h100", "bf16", 468000, "tokens",
                    "llm.c, 8 GPUs, 64 x 1024 tokens each: an eighth (KellerJordan/modded-nanogpt records)"},
    PublishedFigure{"gpt2", "1024", "a100", "bf16", 218000, "tokens",
                    "llm.c, scripts/run_gpt2_124M.sh, 8 GPUs: an eighth"},
};

}  // namespace lockstep::runtime
