// What other programs call our data sets, models and other values of options.
#include <array>

#include "runtime/options/words.h"

namespace lockstep::runtime {
namespace {

constexpr std::array datasets{
    FieldWord{"FakeData", "synthetic"},
    FieldWord{"random", "synthetic"},
    FieldWord{"dummy", "synthetic"},
    FieldWord{"CIFAR100", "",
              "CIFAR100 is not in this version; its shape: synthetic with --image-shape 3x32x32"},
    FieldWord{"TensorDataset", "tensors"},
};

constexpr std::array models{
    FieldWord{"LinearRegression", "linear"},
    FieldWord{"CNN", "", "there are two: convnet for images of 28x28 and more, simplecnn for tiny ones"},
};

constexpr std::array schedules{
    FieldWord{"none", "constant"},
    FieldWord{"StepLR", "step"},
    FieldWord{"CosineAnnealingLR", "cosine"},
    FieldWord{"LinearLR", "linear"},
    FieldWord{"OneCycleLR", "", "OneCycleLR is PyTorch's; there are constant, step, cosine and linear"},
};

constexpr std::array devices{FieldWord{"gpu", "cuda"}};

constexpr std::array backends{
    FieldWord{"gloo", "", "gloo is PyTorch's; on CPUs ranks exchange by --backend host"},
    FieldWord{"ucc", "", "ucc is PyTorch's; there are auto, nccl, host and mpi"},
    FieldWord{"openmpi", "mpi"},
};

constexpr std::array model_arguments{
    FieldWord{"in_features", "in"},         FieldWord{"input_dim", "in"},
    FieldWord{"out_features", "out"},       FieldWord{"output_dim", "out"},
    FieldWord{"hidden_size", "hidden"},     FieldWord{"hidden_dim", "hidden"},
    FieldWord{"classes", "num_classes"},    FieldWord{"n_classes", "num_classes"},
    FieldWord{"num_labels", "num_classes"},
};

}  // namespace

std::span<const FieldWord> dataset_words() {
  return datasets;
}
std::span<const FieldWord> model_words() {
  return models;
}
std::span<const FieldWord> schedule_words() {
  return schedules;
}
std::span<const FieldWord> device_words() {
  return devices;
}
std::span<const FieldWord> backend_words() {
  return backends;
}
std::span<const FieldWord> model_argument_words() {
  return model_arguments;
}

}  // namespace lockstep::runtime
