#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device.h"
#include "kernels/kernel.h"
#include "kernels/matmul_precision.h"

namespace lockstep::kernels {

/// `automatic` leaves it to the library; the others are what `--benchmark` times. On a GPU those are plans,
/// by the name that the library gives them: it stays where a place in a list moves with the batch.
struct ConvAlgorithm {
  enum Kind { automatic, direct, winograd, library_plan };

  ConvAlgorithm(Kind k = automatic) : kind(k) {}
  explicit ConvAlgorithm(std::string name) : kind(library_plan), plan(std::move(name)) {}
  bool operator==(const ConvAlgorithm&) const = default;

  Kind kind;
  std::string plan;  ///< empty but for library_plan
};

struct Conv2dGeometry {
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> padding{0, 0};
  std::array<std::int64_t, 2> dilation{1, 1};
  std::int64_t groups = 1;
};

/// 2-d cross-correlation as in PyTorch. x: (N, C, H, W); w: (O, C / groups, KH, KW); b: (O); y: (N, O, H',
/// W').

/// inputs x, w, [b]; outputs y. With `relu`: y = max(y, 0).
struct Conv2dForward {
  Conv2dGeometry geometry;
  bool bias = true;
  bool relu = false;
  ConvAlgorithm algorithm = ConvAlgorithm::automatic;
  MatmulPrecision precision = MatmulPrecision::highest;
};

/// inputs dy, w; outputs dx.
struct Conv2dBackwardData {
  Conv2dGeometry geometry;
  ConvAlgorithm algorithm = ConvAlgorithm::automatic;
  MatmulPrecision precision = MatmulPrecision::highest;
};

/// inputs x, dy; outputs dw, [db].
struct Conv2dBackwardWeights {
  Conv2dGeometry geometry;
  bool bias = true;
  ConvAlgorithm algorithm = ConvAlgorithm::automatic;
  MatmulPrecision precision = MatmulPrecision::highest;
};

void choose_layouts(Cpu, const Conv2dForward&, KernelIo& io);
void choose_layouts(Cpu, const Conv2dBackwardData&, KernelIo& io);
void choose_layouts(Cpu, const Conv2dBackwardWeights&, KernelIo& io);
KernelPtr prepare(Cpu, const Conv2dForward&, const KernelIo& io);
KernelPtr prepare(Cpu, const Conv2dBackwardData&, const KernelIo& io);
KernelPtr prepare(Cpu, const Conv2dBackwardWeights&, const KernelIo& io);
/// Those that `prepare` accepts for these tensors, best guess first.
std::vector<ConvAlgorithm> algorithms(Cpu, const Conv2dForward&, const KernelIo& io);
std::vector<ConvAlgorithm> algorithms(Cpu, const Conv2dBackwardData&, const KernelIo& io);
std::vector<ConvAlgorithm> algorithms(Cpu, const Conv2dBackwardWeights&, const KernelIo& io);

void choose_layouts(Cuda, const Conv2dForward&, KernelIo& io);
void choose_layouts(Cuda, const Conv2dBackwardData&, KernelIo& io);
void choose_layouts(Cuda, const Conv2dBackwardWeights&, KernelIo& io);
KernelPtr prepare(Cuda, const Conv2dForward&, const KernelIo& io);
KernelPtr prepare(Cuda, const Conv2dBackwardData&, const KernelIo& io);
KernelPtr prepare(Cuda, const Conv2dBackwardWeights&, const KernelIo& io);
std::vector<ConvAlgorithm> algorithms(Cuda, const Conv2dForward&, const KernelIo& io);
std::vector<ConvAlgorithm> algorithms(Cuda, const Conv2dBackwardData&, const KernelIo& io);
std::vector<ConvAlgorithm> algorithms(Cuda, const Conv2dBackwardWeights&, const KernelIo& io);

}  // namespace lockstep::kernels
