#include "runtime/options/words.h"

#include <array>

namespace lockstep::runtime {
namespace {

constexpr std::string_view ranks = "ranks are started by `launch --nproc_per_node=N trainer ...`";
constexpr std::string_view nodes = "nodes are given to launch: `launch --nnodes=N --node_rank=r ... trainer`";
constexpr std::string_view own_rank = "a rank learns who it is from its launcher's environment; leave it out";
constexpr std::string_view rendezvous = "ranks find each other by their launcher's environment; leave it out";
constexpr std::string_view always = "always done; leave it out";
constexpr std::string_view low_precision = "--amp bf16 does it, or --amp fp16 on a GPU";
constexpr std::string_view by_schedule =
    "it is a schedule: --lr-schedule step --lr-gamma X, or cosine, or linear";
constexpr std::string_view warmup_in_steps = "--warmup-steps N counts steps";
constexpr std::string_view both_betas = "give both: --betas B1,B2";
constexpr std::string_view ema_decay = "give its decay: --ema 0.999";
constexpr std::string_view decay_of_matrices =
    "keep weight decay off norms and biases by --weight-decay-for matrices";
constexpr std::string_view in_steps = "--checkpoint-every N counts steps";
constexpr std::string_view in_epochs = "--eval-every N counts epochs";
constexpr std::string_view evaluates = "type `trainer eval RUN`: a run, a checkpoint, or a file with --model";
constexpr std::string_view chooses_cpu = "choose the device by --device cpu";
constexpr std::string_view chooses_gpu = "choose the device by --device cuda";
constexpr std::string_view synthetic_data = "choose random data by --dataset synthetic";
constexpr std::string_view hidden_units = "it is an argument of the model: --model-args hidden=N";
constexpr std::string_view dropped = "it is an argument of the model: --model-args dropout=P";
constexpr std::string_view no_best =
    "no run ends early or picks its best: log.jsonl has each evaluation, --keep 0 keeps all checkpoints, "
    "--ema 0.999 averages weights";
constexpr std::string_view own_log =
    "every run writes log.jsonl in its folder, and no other log; leave it out";
constexpr std::string_view of_devices = "`trainer devices` takes it, on the command line alone";
constexpr std::string_view of_plan = "`trainer plan` takes it, on the command line alone";
constexpr std::string_view augments =
    "say what is done to pictures, and normalise them as --eval-transform does: --transform "
    "pad-crop=4,flip,normalise=cifar10; `trainer datasets` shows the defaults";

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
    FieldWord{"sequence-length", "seq-len"},
    FieldWord{"seq-length", "seq-len"},
    FieldWord{"max-seq-len", "seq-len"},
    FieldWord{"vocab", "vocab-size"},
    FieldWord{"vocabulary-size", "vocab-size"},
    FieldWord{"block-size", "", "it is an argument of the model: --model-args block_size=N"},
    FieldWord{"n-layer", "", "it is an argument of the model: --model-args n_layer=N"},
    FieldWord{"dropout", "", dropped},
    FieldWord{"val-split", "", "no share is split off: `trainer datasets` says which files are evaluated"},
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
    FieldWord{"persistent-workers", "", always},
    FieldWord{"shuffle", "", "done unless you say --no-shuffle; leave it out"},
    FieldWord{"transforms", "transform"},
    FieldWord{"augment", "", augments},
    FieldWord{"augmentation", "", augments},
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
    FieldWord{"no-bias-decay", "", decay_of_matrices},
    FieldWord{"epsilon", "eps"},
    FieldWord{"adam-epsilon", "eps"},
    FieldWord{"adam-beta1", "", both_betas},
    FieldWord{"adam-beta2", "", both_betas},
    FieldWord{"smoothing", "label-smoothing"},
    FieldWord{"label-smoothing-factor", "label-smoothing"},
    FieldWord{"early-stopping", "", no_best},
    FieldWord{"patience", "", no_best},
    FieldWord{"ema-decay", "ema"},
    FieldWord{"model-ema", "", ema_decay},
    FieldWord{"use-ema", "", ema_decay},
    FieldWord{"max-grad-norm", "clip-grad-norm"},
    FieldWord{"grad-clip", "clip-grad-norm"},
    FieldWord{"gradient-clip-val", "clip-grad-norm"},
    FieldWord{"gradient-clipping", "clip-grad-norm"},
    FieldWord{"clip-grad", "clip-grad-norm"},
    FieldWord{"clip-value", "clip-grad-value"},
    FieldWord{"grad-clip-value", "clip-grad-value"},
    FieldWord{"lr-scheduler", "lr-schedule"},
    FieldWord{"scheduler", "lr-schedule"},
    FieldWord{"lr-decay", "", by_schedule},
    FieldWord{"lr-decay-rate", "lr-gamma"},
    FieldWord{"gamma", "lr-gamma"},
    FieldWord{"lr-step-size", "lr-step-epochs"},
    FieldWord{"min-lr", "lr-min"},
    FieldWord{"eta-min", "lr-min"},
    FieldWord{"warmup", "warmup-steps"},
    FieldWord{"num-warmup-steps", "warmup-steps"},
    FieldWord{"warmup-iters", "warmup-steps"},
    FieldWord{"warmup-epochs", "", warmup_in_steps},
    FieldWord{"warmup-ratio", "", warmup_in_steps},
    FieldWord{"accum-steps", "accumulate-steps"},
    FieldWord{"accumulation-steps", "accumulate-steps"},
    FieldWord{"grad-accum-steps", "accumulate-steps"},
    FieldWord{"gradient-accumulation-steps", "accumulate-steps"},
    FieldWord{"accumulate-grad-batches", "accumulate-steps"},
    FieldWord{"accum-iter", "accumulate-steps"},
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
    FieldWord{"zero-redundancy-optimizer", "shard-optimizer"},
    FieldWord{"use-distributed-optimizer", "shard-optimizer"},
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
    FieldWord{"save-best", "", no_best},
    FieldWord{"load-best-model-at-end", "", no_best},
    FieldWord{"tensorboard", "", own_log},
    FieldWord{"report-to", "", own_log},
    FieldWord{"resume-from", "resume"},
    FieldWord{"resume-from-checkpoint", "resume"},
    FieldWord{"log-interval", "log-every"},
    FieldWord{"logging-steps", "log-every"},
    FieldWord{"print-freq", "log-every"},
    FieldWord{"-p", "log-every"},
    FieldWord{"eval-interval", "", in_epochs},
    FieldWord{"eval-steps", "", in_epochs},
    FieldWord{"val-samples", "eval-samples"},
    FieldWord{"evaluate", "", evaluates},
    FieldWord{"eval-only", "", evaluates},
    FieldWord{"-e", "", evaluates},
    FieldWord{"num-beams", "beam"},
    FieldWord{"do-sample", "", "done unless you say --temperature 0; leave it out"},
    FieldWord{"json", "", of_devices},
    FieldWord{"require", "", of_devices},
    FieldWord{"ranks", "", "`trainer plan` and `sampler` take it, on the command line alone"},
    FieldWord{"for", "", of_plan},
    FieldWord{"link", "", of_plan},
    FieldWord{"dry-run", "", "`trainer plan` shows the step and its memory without running it"},
};

constexpr std::array commands{
    FieldWord{"list-models", "", "type `trainer models`"},
    FieldWord{"list-datasets", "", "type `trainer datasets`"},
    FieldWord{"evaluate", "", evaluates},
    FieldWord{"test", "", evaluates},
    FieldWord{"infer", "", "type `trainer predict RUN`"},
};

}  // namespace

std::span<const FieldWord> option_words() {
  return options;
}
std::span<const FieldWord> command_words() {
  return commands;
}

}  // namespace lockstep::runtime
