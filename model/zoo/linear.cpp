#include "model/zoo/zoo.h"

namespace lockstep::model {

ZooEntry linear_entry() {
  return {.name = "linear",
          .what = "linear regression, 10 to 1 (--model-args in=,out=), mean squared error",
          .arguments = {"in", "out"},
          .wants =
              [](const ModelArgs& args) {
                return InputSpec{.shape = {argument(args, "in", 10)},
                                 .num_classes = 0,
                                 .target_shape = {argument(args, "out", 1)}};
              },
          .make =
              [](const ModelArgs&, const InputSpec& input) {
                return Model{.name = "linear",
                             .forward =
                                 [out = input.target_shape.elements()](Tensor x) {
                                   return linear(x.shape().rank() > 2 ? flatten(x) : x, "", out);
                                 },
                             .loss = LossKind::mean_squared_error};
              }};
}

}  // namespace lockstep::model
