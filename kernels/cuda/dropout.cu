#include "kernels/dropout.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

/// A block of random words for each item: up to four elements of one sample.
template <class Element>
__global__ void dropout(Dropout op, DropoutRows rows, std::int64_t fours, std::int64_t items,
                        const Element* x, const StepState* state, Element* y) {
  const Philox random = op.random(*state);
  const std::uint32_t threshold = op.threshold();
  const float scale = op.scale();
  for (std::int64_t item = first_item(); item < items; item += item_stride()) {
    const std::int64_t row = item / fours;
    const std::int64_t four = item % fours;
    const std::int64_t sample = state->first_sample + row * state->sample_stride;
    const PhiloxCounter words = random.block(dropout_block(sample, four));
    std::int64_t step = rows.steps == 1 ? 0 : 4 * four / rows.run;
    std::int64_t in_run = 4 * four - step * rows.run;
    for (int i = 0; i < 4 && step < rows.steps; ++i) {
      const std::int64_t at = (step * rows.samples + row) * rows.run + in_run;
      const float kept = widen(x[at]) * scale;
      y[at] = narrow<Element>(words[static_cast<std::size_t>(i)] < threshold ? 0.0F : kept);
      if (++in_run < rows.run) continue;
      in_run = 0;
      ++step;
    }
  }
}

}  // namespace

KernelPtr prepare(Cuda, const Dropout& op, const KernelIo& io) {
  const TensorDesc& x = io.inputs[Dropout::x];
  const DropoutRows rows(op, x.shape);
  const std::int64_t fours = parts_of(rows.steps * rows.run, 4);
  const std::int64_t items = rows.samples * fours;
  return with_element(x.dtype, [&]<class Element>(Element*) {
    return cuda_kernel(io, [=, s = spread(items)](const Addresses& a, cudaStream_t stream) {
      launch(dropout<Element>, s.blocks, s.threads, 0, stream, op, rows, fours, items,
             a.in<Element>(Dropout::x), a.in<StepState>(Dropout::state), a.out<Element>(Dropout::y));
    });
  });
}

}  // namespace lockstep::kernels
