#include "runtime/options/table.h"

#include <algorithm>
#include <limits>

#include "runtime/options/entries.h"

namespace lockstep::runtime {
namespace {

using O = Options;
using Optimizer = model::OptimizerOptions;
using enum Decides;

/// Epochs times samples must fit 64 bits, and the order of an epoch takes 8 bytes a sample.
constexpr Range<std::int64_t> epoch_counts{1, 1'000'000'000};
constexpr Range<std::int64_t> sample_counts{1, std::int64_t{1} << 33};
constexpr Range<std::int64_t> step_counts{1, 1'000'000'000'000};
/// 0 turns off what happens every so many.
constexpr Range<std::int64_t> intervals{0, step_counts.most};
constexpr Range<std::int64_t> class_counts{0, data::most_classes};
constexpr Range<std::int64_t> batch_sizes{1, most_global_batch};
constexpr Range<std::int64_t> thread_counts{1, 4096};
constexpr Range<std::int64_t> worker_counts{0, 4096};
constexpr Range<std::int64_t> prefetch_factors{1, 4096};
constexpr Range<std::int64_t> seeds{0, std::numeric_limits<std::int64_t>::max()};
/// What optimizers compute with is fp32.
constexpr Range<double> not_negative{0, 1e38};
constexpr Range<double> shares{0, 1};
constexpr Range<double> mebibytes{0, static_cast<double>(most_bytes >> 20)};
constexpr Range<double> seconds{0.001, 1e12};

std::vector<OptionEntry> model_and_data() {
  return {
      plugins({"model", "plugin", "FILE.so",
               "models, data sets and ops of a shared object; may be given again", nothing}),
      text({"model", "model", "NAME", "what to train; `trainer models` lists them", numbers}, &O::model),
      model_args(
          {"model", "model-args", "K=V,...", "arguments of the model; `trainer models` lists them", numbers}),
      path({"model", "init-from", "FILE", "start from these weights (safetensors)", nothing}, &O::init_from),

      text({"data", "dataset", "NAME", "`trainer datasets` lists them", numbers}, &O::dataset),
      path({"data", "data-dir", "DIR", "where its files are, if not where the package puts them", nothing},
           &O::data_dir),
      integer({"data", "samples", "N", "synthetic: how many", numbers}, &O::samples, sample_counts),
      image_shape(
          {"data", "image-shape", "CxHxW", "synthetic: shape of a sample (what the model wants)", numbers}),
      integer({"data", "num-classes", "N", "synthetic: 0 for a regression (what the model wants)", numbers},
              &O::num_classes, class_counts),
      integer({"data", "batch-size", "N", "samples per rank and step", numbers}, &O::batch_size, batch_sizes),
      integer(
          {"data", "global-batch", "N", "samples per step over all ranks, instead of --batch-size", numbers},
          &O::global_batch, batch_sizes),
      integer({"data", "num-workers", "N", "threads that load batches (cores / local ranks)", nothing},
              &O::num_workers, worker_counts),
      integer({"data", "prefetch-factor", "N", "batches that each of them loads ahead", nothing},
              &O::prefetch_factor, prefetch_factors),
      on_off({"data", "drop-last", "", "drop samples that do not fill a batch on every rank", numbers},
             &O::drop_last),
  };
}

std::vector<OptionEntry> training() {
  return {
      integer(
          {"training", "epochs", "N", "passes over the data (1; with --max-steps alone: no limit)", nothing},
          &O::epochs, epoch_counts),
      integer({"training", "max-steps", "N", "stop after so many steps", nothing}, &O::max_steps,
              step_counts),
      optimizer_name({"training", "optimizer", "sgd|adam|adamw", "how parameters follow gradients", numbers}),
      optimizer_real({"training", "lr", "X", "learning rate", numbers}, &Optimizer::learning_rate,
                     not_negative),
      optimizer_real({"training", "momentum", "X", "of SGD", numbers}, &Optimizer::momentum, not_negative),
      nesterov({"training", "nesterov", "", "Nesterov's momentum", numbers}),
      weight_decay(
          {"training", "weight-decay", "X", "L2 penalty (adamw: decoupled, 0.01 if not given)", numbers},
          not_negative),
      betas({"training", "betas", "B1,B2", "Adam's decay rates", numbers}),
      clip_grad_norm({"training", "clip-grad-norm", "MAX",
                      "scale gradients down to this 2-norm of all of them; 0: never", numbers},
                     not_negative),
      real({"training", "label-smoothing", "X", "of the cross-entropy", numbers}, &O::label_smoothing,
           shares),
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
      matmul_precision({"device", "matmul-precision", "highest|high|medium",
                        "of products: fp32; or TF32 on GPUs, and with medium bf16 on CPUs", numbers}),
      on_off({"device", "benchmark", "", "time the algorithms of each op first and use the fastest", nothing},
             &O::benchmark),
      text({"device", "cuda-graph", "auto|on|off", "replay steps as CUDA graphs (auto: when they are short)",
            nothing},
           &O::cuda_graph, {"auto", "on", "off"}),

      backend_name({"exchange", "backend", "auto|nccl|host|mpi", "how ranks exchange gradients", nothing}),
      real({"exchange", "bucket-cap-mb", "X", "MiB that are exchanged at once", nothing}, &O::bucket_cap_mb,
           mebibytes),
      real({"exchange", "first-bucket-mb", "X", "the same for the first bucket", nothing},
           &O::first_bucket_mb, mebibytes),
      on_off({"exchange", "no-overlap", "", "exchange only after backward", nothing}, &O::no_overlap),
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
               "steps between checkpoints; 0: only when stopped by a signal", nothing},
              &O::checkpoint_every, intervals),
      integer({"state", "keep", "N", "checkpoints that are kept; 0: all", nothing}, &O::keep, intervals),
      resume(
          {"state", "resume", "auto|PATH|none",
           "go on from the newest checkpoint of RUN, or of a folder (none; auto when a launcher restarts us)",
           nothing}),

      integer({"output", "log-every", "N", "steps between lines of log.jsonl", nothing}, &O::log_every,
              step_counts),
      eval_every({"output", "eval-every", "N",
                  "epochs between evaluations; 0: never, as with synthetic data if not given", nothing},
                 intervals),
      integer({"output", "eval-samples", "N",
               "of the test set for an evaluation (all; synthetic: none without one of these two)", nothing},
              &O::eval_samples, sample_counts),
      text({"output", "progress", "auto|bar|plain|none", "how a run is shown", nothing}, &O::progress,
           {"auto", "bar", "plain", "none"}),
      on_off({"output", "quiet", "", "print nothing but errors", nothing}, &O::quiet),
      path({"output", "dump-gradients", "FILE", "write loss and gradients of the first step (safetensors)",
            nothing},
           &O::dump_gradients),
  };
}

std::vector<OptionEntry> make_table() {
  std::vector<OptionEntry> table;
  for (const auto& part : {model_and_data(), training(), device_and_exchange(), state_and_output()}) {
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

const FutureOption* find_future(const std::string& name) {
  const auto found = std::ranges::find(future_options(), name, &FutureOption::name);
  return found == future_options().end() ? nullptr : &*found;
}

const std::vector<FutureOption>& future_options() {
  static const std::vector<FutureOption> options{
      {"seq-len", ""},
      {"vocab-size", ""},
      {"augment", "false", true},
      {"lr-schedule", "constant"},
      {"warmup-steps", "0"},
      {"accumulate-steps", "1"},
      {"loss-average", "global"},
      {"amp", "off"},
      {"recompute", "false", true},
      {"deterministic", "true", true},
      {"sync-launch", "false", true},
      {"detect-anomaly", "false", true},
      {"grad-dtype", "fp32"},
      {"sync-bn", "false", true},
      {"shards", ""},
      {"trace", ""},
      {"output", ""},
  };
  return options;
}

}  // namespace lockstep::runtime
