#include "runtime/options/table.h"

#include <algorithm>
#include <limits>

#include "kernels/base/cores.h"
#include "runtime/options/entries.h"

namespace lockstep::runtime {
namespace {

using O = Options;
using Optimizer = model::OptimizerOptions;
using Schedule = kernels::LearningRateSchedule;
using enum Decides;

/// Epochs times samples must fit 64 bits, and the order of an epoch takes 8 bytes a sample.
constexpr Range<std::int64_t> epoch_counts{1, 1'000'000'000};
constexpr Range<std::int64_t> sample_counts{1, std::int64_t{1} << 33};
constexpr Range<std::int64_t> step_counts{1, 1'000'000'000'000};
/// 0 turns off what happens every so many.
constexpr Range<std::int64_t> intervals{0, step_counts.most};
constexpr Range<std::int64_t> class_counts{0, data::most_classes}, vocabularies{1, data::most_classes};
constexpr Range<std::int64_t> sequence_lengths{1, std::int64_t{1} << 24};
constexpr Range<std::int64_t> batch_sizes{1, most_global_batch};
constexpr Range<std::int64_t> thread_counts{1, most_threads};
constexpr Range<std::int64_t> worker_counts{0, 4096}, prefetch_factors{1, 4096};
constexpr Range<std::int64_t> seeds{0, std::numeric_limits<std::int64_t>::max()};
/// What optimizers compute with is fp32.
constexpr Range<double> not_negative{0, 1e38};
/// CPUs flush the second moment of gradients below 3e-18 to 0: a smaller term alone would make of those steps
/// many times the rate.
constexpr Range<double> denominator_terms{1e-17, not_negative.most};
constexpr Range<double> shares{0, 1}, below_one{0, 0.9999999};
constexpr Range<double> mebibytes{0, static_cast<double>(most_bytes >> 20)};
constexpr Range<double> seconds{0.001, 1e12};

std::vector<OptionEntry> model_and_data() {
  return {
      plugins({"model", "plugin", "FILE.so",
               "models, data sets and ops of a shared object; may be given again", nothing}),
      text({"model", "model", "NAME", "what to train; `trainer models` lists them", numbers}, &O::model),
      model_args(
          {"model", "model-args", "K=V,...", "arguments of the model; `trainer models` lists them", numbers}),
      place({"model", "init-from", "PATH",
             "start from these weights: safetensors, its folder of shards, a run or a checkpoint", nothing},
            &O::init_from),

      text({"data", "dataset", "NAME|DIR", "`trainer datasets` lists them; or a folder of pictures by class",
            numbers},
           &O::dataset),
      place({"data", "data-dir", "DIR", "where its files are, if not where the package puts them", nothing},
            &O::data_dir),
      on_off({"data", "download", "",
              "first fetch what is missing of fashion-mnist, mnist or cifar10, into --data-dir if given",
              nothing},
             &O::download),
      integer({"data", "samples", "N", "synthetic: how many; predict --prompt: texts of each (1)", numbers},
              &O::samples, sample_counts),
      image_shape(
          {"data", "image-shape", "CxHxW", "synthetic: shape of a sample (what the model wants)", numbers}),
      integer({"data", "num-classes", "N",
               "synthetic (0: a regression), shards, tensors: classes (what the model wants)", numbers},
              &O::num_classes, class_counts),
      integer({"data", "seq-len", "N",
               "tokens of a sample; tensors have rows of their own (what the model wants)", numbers},
              &O::seq_len, sequence_lengths),
      integer({"data", "vocab-size", "N",
               "tokens of the vocabulary (those of the data; synthetic: what the model wants)", numbers},
              &O::vocab_size, vocabularies),
      batch_size({"data", "batch-size", "N|auto",
                  "samples per rank and micro-batch; auto: as many as fit the GPUs' memory", numbers},
                 batch_sizes),
      integer(
          {"data", "global-batch", "N", "samples per step over all ranks, instead of --batch-size", numbers},
          &O::global_batch, batch_sizes),
      accumulate_steps({"data", "accumulate-steps", "N",
                        "micro-batches of a step, whose gradients are summed before the update (1)", numbers},
                       batch_sizes),
      integer({"data", "num-workers", "N", "threads that load batches (cores / local ranks)", nothing},
              &O::num_workers, worker_counts),
      integer({"data", "prefetch-factor", "N", "batches that each of them loads ahead", nothing},
              &O::prefetch_factor, prefetch_factors),
      text({"data", "data-device", "auto|host|gpu",
            "where pictures of one size, text, tokens and tensors are kept: auto is the GPU, if they fit an "
            "eighth of what is free there",
            course},
           &O::data_device, {"auto", "host", "gpu"}),
      text({"data", "pin-memory", "auto|off", "load batches for a GPU into pinned memory", nothing},
           &O::pin_memory, {"auto", "off"})
          .taken_alone_as("auto"),
      on_off({"data", "drop-last", "", "drop samples that do not fill a step on every rank", numbers},
             &O::drop_last),
      on_off({"data", "no-shuffle", "", "take the samples of every epoch in their order", numbers},
             &O::no_shuffle),
      transforms({"data", "transform", "LIST",
                  "done to each picture for training; `trainer datasets` shows the defaults", numbers},
                 &O::transform),
      transforms({"data", "eval-transform", "LIST", "the same for evaluation", course}, &O::eval_transform),
      text({"data", "corrupt-samples", "fail|skip",
            "a picture that cannot be read ends the run, or the next good one takes its place", numbers},
           &O::corrupt_samples, {"fail", "skip"}),
  };
}

std::vector<OptionEntry> training() {
  return {
      integer({"training", "max-steps", "N", "stop after so many steps", course}, &O::max_steps, step_counts),
      integer(
          {"training", "epochs", "N", "passes over the data (1; with --max-steps alone: no limit)", course},
          &O::epochs, epoch_counts),
      optimizer_name({"training", "optimizer", "sgd|adam|adamw", "how parameters follow gradients", numbers}),
      optimizer_real({"training", "lr", "X", "learning rate", numbers}, &Optimizer::learning_rate,
                     not_negative),
      lr_schedule({"training", "lr-schedule", "constant|step|cosine|linear",
                   "how the rate goes, over --max-steps or else --epochs", numbers}),
      schedule_count(
          {"training", "warmup-steps", "N", "the rate first rises to --lr over N updates", numbers},
          &Schedule::warmup_steps, intervals),
      schedule_real({"training", "lr-min", "X", "where cosine and linear end; least rate of step", numbers},
                    &Schedule::least, not_negative),
      schedule_count({"training", "lr-step-epochs", "N", "step: epochs after which the rate falls", numbers},
                     &Schedule::step_epochs, epoch_counts),
      schedule_real({"training", "lr-gamma", "X", "step: what it is multiplied by then", numbers},
                    &Schedule::gamma, not_negative),
      optimizer_real({"training", "momentum", "X", "of SGD", numbers}, &Optimizer::momentum, not_negative),
      optimizer_real({"training", "dampening", "X", "of SGD", numbers}, &Optimizer::dampening, not_negative),
      optimizer_on_off({"training", "nesterov", "", "Nesterov's momentum", numbers}, &Optimizer::nesterov),
      weight_decay(
          {"training", "weight-decay", "X", "L2 penalty (adamw: decoupled, 0.01 if not given)", numbers},
          not_negative),
      weight_decay_for({"training", "weight-decay-for", "all|matrices",
                        "which parameters decay; matrices: not norms and biases", numbers}),
      betas({"training", "betas", "B1,B2", "Adam's decay rates", numbers}),
      optimizer_real({"training", "eps", "X", "Adam's term in the denominator", numbers}, &Optimizer::epsilon,
                     denominator_terms),
      optimizer_on_off({"training", "amsgrad", "", "Adam's variant with the greatest second moment", numbers},
                       &Optimizer::amsgrad),
      clip_grad_value({"training", "clip-grad-value", "V",
                       "clip each averaged gradient to [-V, V], before its norm; 0: never", numbers},
                      not_negative),
      clip_grad_norm({"training", "clip-grad-norm", "MAX",
                      "scale gradients down to this 2-norm of all of them; 0: never", numbers},
                     not_negative),
      label_smoothing({"training", "label-smoothing", "X", "of the cross-entropy (the model's own)", numbers},
                      shares),
      real({"training", "ema", "DECAY",
            "evaluate and save this moving average of the weights, such as 0.999; 0: the weights", numbers},
           &O::ema, below_one),
      freeze({"training", "freeze", "PATTERN,...",
              "parameters of these names (globs: 'layer1.*') keep their values; may be given again",
              numbers}),
      on_off(
          {"training", "allow-unused", "",
           "a parameter that does not reach the loss gets a gradient of zero; weight decay goes on", numbers},
          &O::allow_unused),
      integer({"training", "seed", "N", "of weights, data order and everything random", numbers}, &O::seed,
              seeds),
  };
}

std::vector<OptionEntry> device_and_exchange() {
  return {
      device_name({"device", "device", "auto|cpu|cuda[:N]", "where to compute", nothing}),
      integer({"device", "threads", "N",
               "compute threads of a rank (OMP_NUM_THREADS, or cores / local ranks)", nothing},
              &O::threads, thread_counts),
      precision({"device", "matmul-precision", "highest|high|medium",
                 "of products: fp32; or TF32 on GPUs, and with medium bf16 on CPUs", numbers},
                kernels::matmul_precision_names, &O::matmul_precision),
      precision({"device", "conv-precision", "ieee|tf32|bf16",
                 "of convolutions: fp32; TF32 (which GPUs take by default); or bf16 on CPUs", numbers},
                kernels::conv_precision_names, &O::conv_precision),
      amp({"device", "amp", "off|bf16|fp16",
           "mixed precision, as torch.autocast; alone bf16, on a GPU without it fp16 (off)", numbers}),
      on_off({"device", "benchmark", "", "time the algorithms of each op first and use the fastest", course},
             &O::benchmark),
      on_off({"device", "recompute", "",
              "compute activations of a model's blocks again in backward instead of keeping them", nothing},
             &O::recompute),
      on_off({"device", "detect-anomaly", "",
              "look behind every kernel, slowly, for the first result that is not finite", course},
             &O::detect_anomaly),
      on_off({"device", "sync-launch", "",
              "wait behind every kernel, slowly: an error of a GPU then names the op and kernel that made it",
              course},
             &O::sync_launch),
      text({"device", "cuda-graph", "auto|on|off", "replay steps as CUDA graphs (auto: when they are short)",
            course},
           &O::cuda_graph, {"auto", "on", "off"}),

      backend_name({"exchange", "backend", "auto|nccl|host|mpi", "how ranks exchange gradients", nothing}),
      real({"exchange", "bucket-cap-mb", "X",
            "a bucket is closed when it reaches this many MiB, or an eighth of all gradients if that is less "
            "(by host on CPUs between nodes a sixteenth)",
            nothing},
           &O::bucket_cap_mb, mebibytes),
      real({"exchange", "first-bucket-mb", "X", "the same for the first bucket", nothing},
           &O::first_bucket_mb, mebibytes),
      grad_dtype({"exchange", "grad-dtype", "fp32|bf16",
                  "of gradients as they are exchanged; sums are fp32 (fp32)", numbers}),
      text({"exchange", "embedding-exchange", "auto|dense|rows",
            "gradients of embeddings: as rows when the batches have few tokens, or always so", nothing},
           &O::embedding_exchange, {"auto", "dense", "rows"}),
      sync_bn({"exchange", "sync-bn", "",
               "batch norm takes the statistics of all ranks' samples, as nn.SyncBatchNorm", numbers}),
      on_off({"exchange", "no-overlap", "", "exchange only after backward", course}, &O::no_overlap),
      on_off({"exchange", "shard-optimizer", "", "each rank updates a shard (CPUs of one node)", nothing},
             &O::shard_optimizer),
      real({"exchange", "timeout", "S", "seconds that any wait may take", nothing}, &O::timeout, seconds),
      text({"exchange", "world", "SOURCE",
            "who tells the ranks: launch, torchrun, openmpi, pmix, slurm, alone", nothing},
           &O::world),
      text({"exchange", "interface", "NAME|ADDRESS", "where sockets listen (what faces rank 0)", nothing},
           &O::interface),
      port_range({"exchange", "port-range", "FIRST-LAST",
                  "ports that sockets between nodes take (any free one)", nothing}),
      path({"exchange", "token-file", "FILE", "the run's secret, the same file on every node", nothing},
           &O::token_file),
      on_off({"exchange", "insecure", "", "nodes meet without a secret: anyone on the network may join",
              nothing},
             &O::insecure),
      text({"exchange", "data-security", "tls|none",
            "gradients between nodes: in TLS, or as they are (a network that you trust)", nothing},
           &O::data_security, {"tls", "none"}),
  };
}

std::vector<OptionEntry> state_and_output() {
  return {
      path({"state", "run-dir", "DIR", "where results go (runs/<model>-<dataset>-<run id>)", nothing},
           &O::run_dir),
      integer({"state", "checkpoint-every", "N",
               "steps between checkpoints; 0: only when stopped by a signal", course},
              &O::checkpoint_every, intervals),
      max_shard_size({"state", "max-shard-size", "SIZE",
                      "final weights in files of at most so many bytes of tensors: 5GB (one file)", nothing}),
      integer({"state", "keep", "N", "checkpoints that are kept; 0: all", nothing}, &O::keep, intervals),
      resume(
          {"state", "resume", "auto|PATH|none",
           "go on from the newest checkpoint of RUN, or of a folder (none; auto when a launcher restarts us)",
           nothing}),

      integer({"output", "log-every", "N", "steps between lines of log.jsonl", nothing}, &O::log_every,
              step_counts),
      eval_every({"output", "eval-every", "N",
                  "epochs between evaluations; 0: never, as with synthetic data if not given", course},
                 intervals),
      integer({"output", "eval-samples", "N",
               "so many, spread over the test set (all; synthetic: none without one of these two)", course},
              &O::eval_samples, sample_counts),
      text({"output", "progress", "auto|bar|plain|none", "how a run is shown", nothing}, &O::progress,
           {"auto", "bar", "plain", "none"}),
      on_off({"output", "quiet", "", "print nothing but errors", nothing}, &O::quiet),
      path({"output", "output", "FILE",
            "predict: write raw logits, and final states, there (safetensors) instead of lines of JSON",
            nothing},
           &O::output),
      path({"output", "dump-gradients", "FILE", "write loss and gradients of the first step (safetensors)",
            nothing},
           &O::dump_gradients),
  };
}

std::vector<OptionEntry> make_table() {
  std::vector<OptionEntry> table;
  for (const auto& part : {model_and_data(), text_data(), training(), device_and_exchange(),
                           state_and_output(), generation_entries()}) {
    table.insert(table.end(), part.begin(), part.end());
  }
  return table;
}

}  // namespace

const std::vector<OptionEntry>& option_table() {
  static const std::vector<OptionEntry> table = make_table();
  return table;
}

const OptionEntry* find_entry(const std::string& name) {
  const auto found = std::ranges::find(option_table(), name, &OptionEntry::name);
  return found == option_table().end() ? nullptr : &*found;
}

}  // namespace lockstep::runtime
