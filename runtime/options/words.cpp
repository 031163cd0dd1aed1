#include "runtime/options/words.h"

#include <array>

namespace lockstep::runtime {
namespace {

constexpr std::string_view ranks = "ranks are started by `launch --nproc_per_node=N trainer ...`";
constexpr std::string_view nodes = "nodes are given to launch: `launch --nnodes=N --node_rank=r ... trainer`";
constexpr std::string_view own_rank = "a rank learns who it is from its launcher's environment; leave it out";
constexpr std::string_view rendezvous = "ranks find each other by their launcher's environment; leave it out";
constexpr std::string_view always = "always done; leave it out";
constexpr std::string_view low_precision =
    "it will be --amp fp16 or --amp bf16; this version computes in fp32, leave it out";
constexpr std::string_view in_steps = "--checkpoint-every N counts steps";
constexpr std::string_view in_epochs = "--eval-every N counts epochs";
constexpr std::string_view trains_only =
    "this version evaluates with training; of given weights: --init-from FILE --lr 0 --max-steps 1";
constexpr std::string_view chooses_cpu = "choose the device by --device cpu";
constexpr std::string_view chooses_gpu = "choose the device by --device cuda";
constexpr std::string_view synthetic_data = "choose random data by --dataset synthetic";
constexpr std::string_view hidden_units = "it is an argument of the model: --model-args hidden=N";
constexpr std::string_view no_images = "not in this version; --dataset tensors reads any data as safetensors";

constexpr std::array options{
    // model
    FieldWord{"arch", "model"},
    FieldWord{"-a", "model"},
    FieldWord{"net", "model"},
    FieldWord{"network", "model"},
    FieldWord{"model-name", "model"},
    FieldWord{"weights", "init-from"},
    FieldWord{"pretrained-weights", "init-from"},
    FieldWord{"pretrained", "", "weights to start from are a file: --init-from FILE.safetensors"},
    FieldWord{"in-features", "", "it is an argument of the model: --model-args in=N"},
    FieldWord{"out-features", "", "it is an argument of the model: --model-args out=N"},
    FieldWord{"hidden-size", "", hidden_units},
    FieldWord{"hidden-dim", "", hidden_units},
    FieldWord{"list-models", "", "type `trainer models`"},
    FieldWord{"list-datasets", "", "type `trainer datasets`"},

    // data
    FieldWord{"data", "data-dir"},
    FieldWord{"data-path", "data-dir"},
    FieldWord{"data-root", "data-dir"},
    FieldWord{"dataset-path", "data-dir"},
    FieldWord{"dataset-dir", "data-dir"},
    FieldWord{"dataset-name", "dataset"},
    FieldWord{"num-samples", "samples"},
    FieldWord{"dataset-size", "samples"},
    FieldWord{"input-shape", "image-shape"},
    FieldWord{"image-size", "", "give channels, height and width: --image-shape 3x224x224"},
    FieldWord{"img-size", "", "give channels, height and width: --image-shape 3x224x224"},
    FieldWord{"n-classes", "num-classes"},
    FieldWord{"batch", "batch-size"},
    FieldWord{"-b", "batch-size"},
    FieldWord{"train-batch-size", "batch-size"},
    FieldWord{"per-device-train-batch-size", "batch-size"},
    FieldWord{"micro-batch-size", "batch-size"},
    FieldWord{"global-batch-size", "global-batch"},
    FieldWord{"test-batch-size", "", "evaluation takes --batch-size"},
    FieldWord{"eval-batch-size", "", "evaluation takes --batch-size"},
    FieldWord{"workers", "num-workers"},
    FieldWord{"-j", "num-workers"},
    FieldWord{"pin-memory", "", always},
    FieldWord{"persistent-workers", "", always},
    FieldWord{"shuffle", "", always},
    FieldWord{"fake-data", "", synthetic_data},
    FieldWord{"synthetic", "", synthetic_data},
    FieldWord{"dummy", "", synthetic_data},

    // training
    FieldWord{"learning-rate", "lr"},
    FieldWord{"num-epochs", "epochs"},
    FieldWord{"n-epochs", "epochs"},
    FieldWord{"max-epochs", "epochs"},
    FieldWord{"total-epochs", "epochs"},
    FieldWord{"num-train-epochs", "epochs"},
    FieldWord{"steps", "max-steps"},
    FieldWord{"num-steps", "max-steps"},
    FieldWord{"train-steps", "max-steps"},
    FieldWord{"max-train-steps", "max-steps"},
    FieldWord{"iterations", "max-steps"},
    FieldWord{"max-iters", "max-steps"},
    FieldWord{"opt", "optimizer"},
    FieldWord{"optim", "optimizer"},
    FieldWord{"wd", "weight-decay"},
    FieldWord{"max-grad-norm", "clip-grad-norm"},
    FieldWord{"grad-clip", "clip-grad-norm"},
    FieldWord{"gradient-clip-val", "clip-grad-norm"},
    FieldWord{"lr-scheduler", "lr-schedule"},
    FieldWord{"scheduler", "lr-schedule"},
    FieldWord{"warmup", "warmup-steps"},
    FieldWord{"accum-steps", "accumulate-steps"},
    FieldWord{"accumulation-steps", "accumulate-steps"},
    FieldWord{"grad-accum-steps", "accumulate-steps"},
    FieldWord{"gradient-accumulation-steps", "accumulate-steps"},
    FieldWord{"random-seed", "seed"},
    FieldWord{"manual-seed", "seed"},
    FieldWord{"find-unused-parameters", "", "it is called --allow-unused"},

    // device
    FieldWord{"fp16", "", low_precision},
    FieldWord{"bf16", "", low_precision},
    FieldWord{"half", "", low_precision},
    FieldWord{"use-amp", "", low_precision},
    FieldWord{"mixed-precision", "amp"},
    FieldWord{"gradient-checkpointing", "recompute"},
    FieldWord{"activation-checkpointing", "recompute"},
    FieldWord{"cudnn-benchmark", "benchmark"},
    FieldWord{"num-threads", "threads"},
    FieldWord{"compile", "", "a step is always compiled to a plan; leave it out"},
    FieldWord{"channels-last", "", "the plan chooses the layout of each op; leave it out"},
    FieldWord{"cpu", "", chooses_cpu},
    FieldWord{"no-cuda", "", chooses_cpu},
    FieldWord{"cuda", "", chooses_gpu},
    FieldWord{"gpu", "", chooses_gpu},

    // ranks and exchange
    FieldWord{"gpus", "", ranks},
    FieldWord{"num-gpus", "", ranks},
    FieldWord{"world-size", "", ranks},
    FieldWord{"nproc", "", ranks},
    FieldWord{"nproc-per-node", "", ranks},
    FieldWord{"num-processes", "", ranks},
    FieldWord{"nnodes", "", nodes},
    FieldWord{"num-nodes", "", nodes},
    FieldWord{"node-rank", "", nodes},
    FieldWord{"rank", "", own_rank},
    FieldWord{"local-rank", "", own_rank},
    FieldWord{"master-addr", "", rendezvous},
    FieldWord{"master-port", "", rendezvous},
    FieldWord{"dist-url", "", rendezvous},
    FieldWord{"init-method", "", rendezvous},
    FieldWord{"dist-backend", "backend"},
    FieldWord{"sync-batchnorm", "sync-bn"},
    FieldWord{"gradient-as-bucket-view", "", always},
    FieldWord{"static-graph", "", always},

    // state and output
    FieldWord{"output-dir", "run-dir"},
    FieldWord{"out-dir", "run-dir"},
    FieldWord{"save-dir", "run-dir"},
    FieldWord{"log-dir", "run-dir"},
    FieldWord{"checkpoint-dir", "", "checkpoints are in the run's folder: --run-dir DIR"},
    FieldWord{"save-steps", "checkpoint-every"},
    FieldWord{"checkpoint-steps", "checkpoint-every"},
    FieldWord{"save-every", "", in_steps},
    FieldWord{"save-interval", "", in_steps},
    FieldWord{"checkpoint-interval", "", in_steps},
    FieldWord{"resume-from", "resume"},
    FieldWord{"resume-from-checkpoint", "resume"},
    FieldWord{"log-interval", "log-every"},
    FieldWord{"logging-steps", "log-every"},
    FieldWord{"print-freq", "log-every"},
    FieldWord{"-p", "log-every"},
    FieldWord{"eval-interval", "", in_epochs},
    FieldWord{"eval-steps", "", in_epochs},
    FieldWord{"val-samples", "eval-samples"},
    FieldWord{"evaluate", "", trains_only},
    FieldWord{"eval-only", "", trains_only},
    FieldWord{"-e", "", trains_only},
    FieldWord{"dry-run", "", "`trainer plan` shows the step and its memory without running it"},
};

constexpr std::array commands{
    FieldWord{"list-models", "", "type `trainer models`"},
    FieldWord{"list-datasets", "", "type `trainer datasets`"},
    FieldWord{"eval", "", trains_only},
    FieldWord{"evaluate", "", trains_only},
    FieldWord{"test", "", trains_only},
    FieldWord{"predict", "", "not in this version"},
};

constexpr std::array datasets{
    FieldWord{"FakeData", "synthetic"},
    FieldWord{"random", "synthetic"},
    FieldWord{"dummy", "synthetic"},
    FieldWord{"CIFAR10", "",
              "CIFAR10 is not in this version; its shape: synthetic with --image-shape 3x32x32"},
    FieldWord{"CIFAR100", "",
              "CIFAR100 is not in this version; its shape: synthetic with --image-shape 3x32x32"},
    FieldWord{"ImageNet", "", no_images},
    FieldWord{"ImageFolder", "", no_images},
    FieldWord{"TensorDataset", "tensors"},
};

constexpr std::array models{
    FieldWord{"LinearRegression", "linear"},
    FieldWord{"CNN", "", "there are two: convnet for images of 28x28 and more, simplecnn for tiny ones"},
};

constexpr std::array devices{FieldWord{"gpu", "cuda"}};

constexpr std::array backends{
    FieldWord{"gloo", "", "gloo is PyTorch's; on CPUs ranks exchange by --backend host"},
    FieldWord{"ucc", "", "ucc is PyTorch's; there are auto, nccl, host and mpi"},
    FieldWord{"openmpi", "mpi"},
};

constexpr std::array model_arguments{
    FieldWord{"in_features", "in"},
    FieldWord{"input_dim", "in"},
    FieldWord{"out_features", "out"},
    FieldWord{"output_dim", "out"},
    FieldWord{"hidden_size", "hidden"},
    FieldWord{"hidden_dim", "hidden"},
    FieldWord{"num_classes", "",
              "the data set tells how many classes there are; of synthetic data: --num-classes N"},
};

}  // namespace

std::span<const FieldWord> option_words() {
  return options;
}
std::span<const FieldWord> command_words() {
  return commands;
}
std::span<const FieldWord> dataset_words() {
  return datasets;
}
std::span<const FieldWord> model_words() {
  return models;
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
