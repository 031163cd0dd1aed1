#pragma once

#include <cudnn_frontend.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/dnn.h"

namespace lockstep::kernels {

class DnnHandle;

/// A pattern of operations and the plan of cuDNN's that computes it as a whole. Operands are numbered in the
/// order in which they are added.
class DnnGraph : public DnnCall {
 public:
  using TensorPtr = std::shared_ptr<cudnn_frontend::graph::Tensor_attributes>;

  /// Operands are of this type unless their descriptions say otherwise; what lies between operations is f32.
  /// `gpu`: planned for in place of the current device, if not null.
  DnnGraph(DType dtype, const DescribedGpu* gpu);

  cudnn_frontend::graph::Graph& pattern() { return graph_; }
  TensorPtr input(const TensorDesc& desc);
  void output(const TensorPtr& tensor, const TensorDesc& desc);

  /// Asks the library's heuristic for plans with no more workspace than that. Empty, or why there are none.
  std::string list_plans(Precision precision, std::int64_t workspace_bytes);
  /// Takes the first that can be built. Empty, or why none can. Of those that the library compiles the ones
  /// `kept`, if not null, are loaded, and the others kept there.
  std::string build_first(const PlanStore* kept);
  /// The one of that name. Empty, or why it cannot be built.
  std::string build(const std::string& plan, const PlanStore* kept);
  /// Names of those that the library supports, at most `count`; none is built.
  std::vector<std::string> plans(std::size_t count);

  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  LibraryPlan plan() const override;
  void launch(std::span<void* const> operands, void* workspace, cudaStream_t stream) const override;

 private:
  /// cudnn-frontend's own keeps its list of plans to itself, which alone tells of plans that are not built.
  struct Graph : cudnn_frontend::graph::Graph {
    using ICudnn::plans;
  };

  /// Empty, or why it cannot be built.
  std::string take(std::int64_t plan, const PlanStore* kept);
  bool load(std::int64_t plan, const PlanStore& kept);
  void keep(std::int64_t plan, const PlanStore& kept);
  bool is_compiled_at_run_time(std::int64_t plan) const;
  std::int64_t unbuilt_workspace_bytes(std::int64_t plan);
  std::string name_of(std::int64_t plan) const;
  void describe(const TensorPtr& tensor, const TensorDesc& desc);

  std::shared_ptr<DnnHandle> handle_;                                   ///< null: a described GPU has none
  std::shared_ptr<const cudnn_frontend::DeviceProperties> properties_;  ///< of a described GPU
  Graph graph_;
  std::int64_t operands_ = 0;
  std::int64_t taken_ = -1;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace lockstep::kernels
