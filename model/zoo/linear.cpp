#include "model/zoo/zoo.h"

namespace lockstep::model {
namespace {

const IntegerArgument in{.key = "in", .otherwise = 10, .range = feature_counts};
const IntegerArgument out{.key = "out", .otherwise = 1, .range = feature_counts};

}  // namespace

ZooEntry linear_entry() {
  return {.name = "linear",
          .what = "linear regression, mean squared error",
          .arguments = {in, out},
          .wants =
              [](const ModelArgs& args) {
                return InputSpec{.shape = {in.of(args)}, .num_classes = 0, .target_shape = {out.of(args)}};
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
