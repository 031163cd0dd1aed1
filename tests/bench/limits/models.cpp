#include <array>

#include "kernels/conv2d.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/optimizer.h"
#include "kernels/pointwise.h"
#include "kernels/pool2d.h"
#include "tests/bench/limits/step.h"

// The benchmark models' steps, kernel by kernel, in the order in which a plan would run them.
namespace lockstep::bench {
namespace {

using namespace kernels;

/// A layer's parameters with their gradients; each lies as forward chose.
struct Parameters {
  Tensor* weight;
  Tensor* bias;
  Tensor* weight_gradient = nullptr;
  Tensor* bias_gradient = nullptr;
};

constexpr Conv2dGeometry same_3x3{.padding = {1, 1}};
constexpr Pool2dGeometry halves{.kernel = {2, 2}, .stride = {2, 2}};

double conv_flop(const Tensor* w, const Tensor* y) {
  const Shape& out = y->desc.shape;
  return 2.0 * static_cast<double>(out.elements()) * static_cast<double>(w->desc.shape.elements(1));
}

double linear_flop(const Tensor* w, const Tensor* y) {
  return 2.0 * static_cast<double>(w->desc.shape.elements()) * static_cast<double>(y->desc.shape[0]);
}

void gradients(Step& step, Parameters& p) {
  p.weight_gradient = step.like(p.weight);
  p.bias_gradient = step.like(p.bias);
}

Tensor* conv_forward(Step& step, const std::string& name, Tensor* x, Parameters& p, std::int64_t outputs) {
  const Shape& in = x->desc.shape;
  p = {step.tensor({outputs, in[1], 3, 3}), step.plain({outputs})};
  Tensor* y = step.tensor({in[0], outputs, in[2], in[3]});
  step.add(name + " forward", Conv2d{same_3x3, Activation::relu}, {x, p.weight, p.bias}, {y},
           conv_flop(p.weight, y));
  gradients(step, p);
  return y;
}

void conv_backward_weights(Step& step, const std::string& name, Tensor* x, Tensor* dy, const Parameters& p) {
  step.add(name + " backward weights", Conv2dBackwardWeights{same_3x3}, {x, dy},
           {p.weight_gradient, p.bias_gradient}, conv_flop(p.weight, dy));
}

Tensor* pool_forward(Step& step, const std::string& name, Tensor* x) {
  const Shape& in = x->desc.shape;
  Tensor* y = step.tensor({in[0], in[1], in[2] / 2, in[3] / 2});
  step.add(name + " forward", MaxPool2d{halves}, {x}, {y});
  return y;
}

Tensor* pool_backward(Step& step, const std::string& name, Tensor* x, Tensor* dy) {
  Tensor* dx = step.like(x);
  step.add(name + " and relu backward", MaxPool2dBackward{halves, true}, {x, dy}, {dx});
  return dx;
}

Tensor* linear_forward(Step& step, const std::string& name, Tensor* x, Parameters& p, std::int64_t outputs,
                       bool relu) {
  Shape weight = x->desc.shape;
  weight[0] = outputs;
  p = {step.tensor(weight), step.plain({outputs})};
  Tensor* y = step.tensor({x->desc.shape[0], outputs});
  step.add(name + " forward", Linear{relu ? Activation::relu : Activation::none}, {x, p.weight, p.bias}, {y},
           linear_flop(p.weight, y));
  gradients(step, p);
  return y;
}

void linear_backward_weights(Step& step, const std::string& name, Tensor* x, Tensor* dy,
                             const Parameters& p) {
  step.add(name + " backward weights", LinearBackwardWeights{}, {x, dy}, {p.weight_gradient, p.bias_gradient},
           linear_flop(p.weight, dy));
}

Tensor* linear_backward_data(Step& step, const std::string& name, Tensor* x, Tensor* dy,
                             const Parameters& p) {
  Tensor* dx = step.like(x);
  step.add(name + " backward data", LinearBackwardData{}, {dy, p.weight}, {dx}, linear_flop(p.weight, dy));
  return dx;
}

Tensor* state_of(Step& step) {
  return step.plain({sizeof(StepState)}, DType::u8);
}

Tensor* cross_entropy(Step& step, Tensor* logits) {
  Tensor* gradient = step.like(logits);
  Tensor* targets = step.plain({logits->desc.shape[0]}, DType::i64);
  step.add("softmax cross-entropy", SoftmaxCrossEntropy{}, {logits, targets, state_of(step)},
           {step.plain({sizeof(ControlBlock)}, DType::u8), gradient});
  return gradient;
}

std::int64_t elements(const Parameters& p) {
  return p.weight->desc.layout_or_row_major().span() + p.bias->desc.shape.elements();
}

/// One flat slice for all, as the plan's buckets are.
template <class Update>
void update(Step& step, const Update& spec, std::initializer_list<Parameters> layers, std::size_t states) {
  std::int64_t count = 0;
  for (const Parameters& p : layers) count += elements(p);
  std::vector<Tensor*> out;
  for (std::size_t i = 0; i < 1 + states; ++i) out.push_back(step.plain({count}));
  step.add("optimizer", spec, {step.plain({count}), state_of(step)}, out);
}

}  // namespace

Step convnet(Device& device, std::int64_t batch) {
  Step step(device);
  Parameters conv1, conv2, fc1, fc2;
  Tensor* x = step.plain({batch, 3, 28, 28});
  Tensor* a1 = conv_forward(step, "conv1 and relu", x, conv1, 32);
  Tensor* p1 = pool_forward(step, "pool1", a1);
  Tensor* a2 = conv_forward(step, "conv2 and relu", p1, conv2, 64);
  Tensor* p2 = pool_forward(step, "pool2", a2);
  Tensor* hidden = linear_forward(step, "fc1 and relu", p2, fc1, 128, true);
  Tensor* logits = linear_forward(step, "fc2", hidden, fc2, 10, false);
  Tensor* dlogits = cross_entropy(step, logits);
  linear_backward_weights(step, "fc2", hidden, dlogits, fc2);
  Tensor* dhidden = linear_backward_data(step, "fc2", hidden, dlogits, fc2);
  step.add("relu backward", Pointwise::single(PointwiseFunction::relu, PointwisePart::gradient),
           {hidden, dhidden}, {dhidden});
  linear_backward_weights(step, "fc1", p2, dhidden, fc1);
  Tensor* dp2 = linear_backward_data(step, "fc1", p2, dhidden, fc1);
  Tensor* da2 = pool_backward(step, "pool2", a2, dp2);
  conv_backward_weights(step, "conv2", p1, da2, conv2);
  Tensor* dp1 = step.like(p1);
  step.add("conv2 backward data", Conv2dBackwardData{same_3x3}, {da2, conv2.weight}, {dp1},
           conv_flop(conv2.weight, a2));
  Tensor* da1 = pool_backward(step, "pool1", a1, dp1);
  conv_backward_weights(step, "conv1", x, da1, conv1);
  update(step, AdamUpdate{}, {conv1, conv2, fc1, fc2}, 2);
  return step;
}

Step mlp(Device& device, std::int64_t batch) {
  Step step(device);
  Parameters fc1, fc2;
  Tensor* x = step.plain({batch, 784});
  Tensor* hidden = linear_forward(step, "fc1 and relu", x, fc1, 128, true);
  Tensor* logits = linear_forward(step, "fc2", hidden, fc2, 10, false);
  Tensor* dlogits = cross_entropy(step, logits);
  linear_backward_weights(step, "fc2", hidden, dlogits, fc2);
  Tensor* dhidden = linear_backward_data(step, "fc2", hidden, dlogits, fc2);
  step.add("relu backward", Pointwise::single(PointwiseFunction::relu, PointwisePart::gradient),
           {hidden, dhidden}, {dhidden});
  linear_backward_weights(step, "fc1", x, dhidden, fc1);
  update(step, AdamUpdate{}, {fc1, fc2}, 2);
  return step;
}

Step simplecnn(Device& device, std::int64_t batch) {
  Step step(device);
  Parameters conv, fc;
  Tensor* x = step.plain({batch, 3, 14, 14});
  Tensor* a = conv_forward(step, "conv and relu", x, conv, 16);
  Tensor* p = pool_forward(step, "pool", a);
  Tensor* logits = linear_forward(step, "fc", p, fc, 10, false);
  Tensor* dlogits = cross_entropy(step, logits);
  linear_backward_weights(step, "fc", p, dlogits, fc);
  Tensor* dp = linear_backward_data(step, "fc", p, dlogits, fc);
  Tensor* da = pool_backward(step, "pool", a, dp);
  conv_backward_weights(step, "conv", x, da, conv);
  update(step, AdamUpdate{}, {conv, fc}, 2);
  return step;
}

Step linear(Device& device, std::int64_t batch) {
  Step step(device);
  Parameters fc;
  Tensor* x = step.plain({batch, 10});
  Tensor* y = linear_forward(step, "fc", x, fc, 1, false);
  Tensor* dy = step.like(y);
  step.add("mean squared error", MeanSquaredError{}, {y, step.like(y), state_of(step)},
           {step.plain({sizeof(ControlBlock)}, DType::u8), dy});
  linear_backward_weights(step, "fc", x, dy, fc);
  update(step, SgdUpdate{}, {fc}, 0);
  return step;
}

}  // namespace lockstep::bench
