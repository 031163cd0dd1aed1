#include "runtime/options/table.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "runtime/options/values.h"

namespace lockstep::runtime {
namespace {

template <class Integer>
OptionEntry integer(std::string group, std::string name, std::string value_name, std::string what,
                    Integer Options::*field, std::int64_t least) {
  return {std::move(group),
          std::move(name),
          std::move(value_name),
          std::move(what),
          [field, least](Options& o, const std::string& text) {
            o.*field = static_cast<Integer>(parse_integer(text, least));
          },
          [field, given_from = least](const Options& o) {
            return static_cast<std::int64_t>(o.*field) < given_from ? std::string()
                                                                    : std::to_string(o.*field);
          }};
}

OptionEntry real(std::string group, std::string name, std::string value_name, std::string what,
                 double Options::*field, double least) {
  return {std::move(group),
          std::move(name),
          std::move(value_name),
          std::move(what),
          [field, least](Options& o, const std::string& text) { o.*field = parse_real(text, least); },
          [field](const Options& o) { return show_real(o.*field); }};
}

OptionEntry optimizer_real(std::string name, std::string what, double model::OptimizerOptions::*field) {
  return {"training",
          std::move(name),
          "X",
          std::move(what),
          [field](Options& o, const std::string& text) { o.optimizer.*field = parse_real(text, 0); },
          [field](const Options& o) { return show_real(o.optimizer.*field); }};
}

OptionEntry on_off(std::string group, std::string name, std::string what, bool Options::*field) {
  return {std::move(group),
          std::move(name),
          "",
          std::move(what),
          [field](Options& o, const std::string& text) { o.*field = parse_switch(text); },
          [field](const Options& o) { return std::string(o.*field ? "true" : "false"); }};
}

OptionEntry path(std::string group, std::string name, std::string value_name, std::string what,
                 std::filesystem::path Options::*field) {
  return {std::move(group),
          std::move(name),
          std::move(value_name),
          std::move(what),
          [field](Options& o, const std::string& text) { o.*field = text; },
          [field](const Options& o) { return (o.*field).string(); }};
}

OptionEntry text(std::string group, std::string name, std::string value_name, std::string what,
                 std::string Options::*field, std::vector<std::string> choices = {}) {
  return {std::move(group),
          std::move(name),
          std::move(value_name),
          std::move(what),
          [field, choices](Options& o, const std::string& given) {
            o.*field = choices.empty() ? given : parse_choice(given, choices);
          },
          [field](const Options& o) { return o.*field; }};
}

OptionEntry optimizer_name() {
  static const std::vector<std::string> names{"sgd", "adam", "adamw"};
  return {"training",
          "optimizer",
          "sgd|adam|adamw",
          "how parameters follow gradients",
          [](Options& o, const std::string& given) {
            const std::string name = parse_choice(given, names);
            o.optimizer.kind = name == "sgd"    ? model::OptimizerKind::sgd
                               : name == "adam" ? model::OptimizerKind::adam
                                                : model::OptimizerKind::adamw;
          },
          [](const Options& o) { return names[static_cast<std::size_t>(o.optimizer.kind)]; }};
}

OptionEntry matmul_precision() {
  static const std::vector<std::string> names(kernels::matmul_precision_names.begin(),
                                              kernels::matmul_precision_names.end());
  return {"device",
          "matmul-precision",
          "highest|high|medium",
          "of products: fp32; or TF32 on GPUs, and with medium bf16 on CPUs",
          [](Options& o, const std::string& given) {
            const auto at = std::ranges::find(names, parse_choice(given, names)) - names.begin();
            o.matmul_precision = static_cast<kernels::MatmulPrecision>(at);
          },
          [](const Options& o) { return std::string(name_of(o.matmul_precision)); }};
}

OptionEntry weight_decay() {
  return {"training",
          "weight-decay",
          "X",
          "L2 penalty (adamw: decoupled, 0.01 if not given)",
          [](Options& o, const std::string& given) {
            o.optimizer.weight_decay = parse_real(given, 0);
            o.weight_decay_given = true;
          },
          [](const Options& o) { return show_real(o.optimizer.weight_decay); }};
}

OptionEntry betas() {
  return {"training",
          "betas",
          "B1,B2",
          "Adam's decay rates",
          [](Options& o, const std::string& given) {
            std::tie(o.optimizer.beta1, o.optimizer.beta2) = parse_betas(given);
          },
          [](const Options& o) { return show_real(o.optimizer.beta1) + "," + show_real(o.optimizer.beta2); }};
}

OptionEntry nesterov() {
  return {"training",
          "nesterov",
          "",
          "Nesterov's momentum",
          [](Options& o, const std::string& given) { o.optimizer.nesterov = parse_switch(given); },
          [](const Options& o) { return std::string(o.optimizer.nesterov ? "true" : "false"); }};
}

/// 0 shows as not given, which is what checkpoints from before it say.
OptionEntry clip_grad_norm() {
  return {
      "training",
      "clip-grad-norm",
      "MAX",
      "scale gradients down to this 2-norm of all of them; 0: never",
      [](Options& o, const std::string& given) { o.clip_grad_norm = parse_real(given, 0); },
      [](const Options& o) { return o.clip_grad_norm > 0 ? show_real(o.clip_grad_norm) : std::string(); }};
}

OptionEntry model_args() {
  return {"model",
          "model-args",
          "K=V,...",
          "arguments of the model; `trainer models` lists them",
          [](Options& o, const std::string& given) { o.model_args = parse_model_args(given); },
          [](const Options& o) { return show_model_args(o.model_args); }};
}

OptionEntry image_shape() {
  return {"data",
          "image-shape",
          "CxHxW",
          "synthetic: shape of a sample (what the model wants)",
          [](Options& o, const std::string& given) { o.image_shape = parse_shape(given); },
          [](const Options& o) { return o.image_shape.rank() == 0 ? std::string() : o.image_shape.str(); }};
}

OptionEntry port_range() {
  return {"exchange",
          "port-range",
          "FIRST-LAST",
          "ports that sockets between nodes take (any free one)",
          [](Options& o, const std::string& given) {
            std::tie(o.first_port, o.last_port) = parse_port_range(given);
          },
          [](const Options& o) {
            return o.first_port == 0 ? std::string() : fmt::format("{}-{}", o.first_port, o.last_port);
          }};
}

std::vector<OptionEntry> make_table() {
  using O = Options;
  return {
      text("model", "model", "NAME", "what to train; `trainer models` lists them", &O::model),
      model_args(),
      path("model", "init-from", "FILE", "start from these weights (safetensors)", &O::init_from),

      text("data", "dataset", "NAME", "`trainer datasets` lists them", &O::dataset),
      path("data", "data-dir", "DIR", "where its files are, if not where the package puts them",
           &O::data_dir),
      integer("data", "samples", "N", "synthetic: how many", &O::samples, 1),
      image_shape(),
      integer("data", "num-classes", "N", "synthetic: 0 for a regression (what the model wants)",
              &O::num_classes, 0),
      integer("data", "batch-size", "N", "samples per rank and step", &O::batch_size, 1),
      integer("data", "global-batch", "N", "samples per step over all ranks, instead of --batch-size",
              &O::global_batch, 1),
      integer("data", "num-workers", "N", "threads that load batches (cores / local ranks)", &O::num_workers,
              0),
      integer("data", "prefetch-factor", "N", "batches that each of them loads ahead", &O::prefetch_factor,
              1),
      on_off("data", "drop-last", "drop samples that do not fill a batch on every rank", &O::drop_last),

      integer("training", "epochs", "N", "passes over the data (1; with --max-steps alone: no limit)",
              &O::epochs, 1),
      integer("training", "max-steps", "N", "stop after so many steps", &O::max_steps, 1),
      optimizer_name(),
      optimizer_real("lr", "learning rate", &model::OptimizerOptions::learning_rate),
      optimizer_real("momentum", "of SGD", &model::OptimizerOptions::momentum),
      nesterov(),
      weight_decay(),
      betas(),
      clip_grad_norm(),
      real("training", "label-smoothing", "X", "of the cross-entropy", &O::label_smoothing, 0),
      integer("training", "seed", "N", "of weights, data order and everything random", &O::seed, 0),

      text("device", "device", "auto|cpu|cuda[:N]", "where to compute", &O::device),
      integer("device", "threads", "N", "compute threads of a rank (OMP_NUM_THREADS, or cores / local ranks)",
              &O::threads, 1),
      matmul_precision(),
      on_off("device", "benchmark", "time the algorithms of each op first and use the fastest",
             &O::benchmark),
      text("device", "cuda-graph", "auto|on|off", "replay steps as CUDA graphs (auto: when they are short)",
           &O::cuda_graph, {"auto", "on", "off"}),

      text("exchange", "backend", "auto|nccl|host|mpi", "how ranks exchange gradients", &O::backend),
      real("exchange", "bucket-cap-mb", "X", "MiB that are exchanged at once", &O::bucket_cap_mb, 0),
      real("exchange", "first-bucket-mb", "X", "the same for the first bucket", &O::first_bucket_mb, 0),
      on_off("exchange", "no-overlap", "exchange only after backward", &O::no_overlap),
      real("exchange", "timeout", "S", "seconds that any wait may take", &O::timeout, 0.001),
      text("exchange", "world", "SOURCE", "who tells the ranks: launch, torchrun, openmpi, slurm, alone",
           &O::world),
      text("exchange", "interface", "NAME|ADDRESS", "where sockets listen (what faces rank 0)",
           &O::interface),
      port_range(),
      path("exchange", "token-file", "FILE", "the run's secret, the same file on every node", &O::token_file),
      on_off("exchange", "insecure", "nodes meet without a secret: anyone on the network may join",
             &O::insecure),

      path("state", "run-dir", "DIR", "where results go (runs/<model>-<dataset>-<run id>)", &O::run_dir),
      integer("state", "checkpoint-every", "N", "steps between checkpoints; 0: only when stopped by a signal",
              &O::checkpoint_every, 0),
      integer("state", "keep", "N", "checkpoints that are kept; 0: all", &O::keep, 0),
      text("state", "resume", "auto|PATH|none",
           "go on from the newest checkpoint of RUN, or of a folder (none; auto when a launcher restarts us)",
           &O::resume),

      integer("output", "log-every", "N", "steps between lines of log.jsonl", &O::log_every, 1),
      integer("output", "eval-every", "N", "epochs between evaluations; 0: never", &O::eval_every, 0),
      text("output", "progress", "auto|bar|plain|none", "how a run is shown", &O::progress,
           {"auto", "bar", "plain", "none"}),
      on_off("output", "quiet", "print nothing but errors", &O::quiet),
      path("output", "dump-gradients", "FILE", "write loss and gradients of the first step (safetensors)",
           &O::dump_gradients),
  };
}

}  // namespace

const std::vector<OptionEntry>& option_table() {
  static const std::vector<OptionEntry> table = make_table();
  return table;
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
      {"grad-dtype", "f32"},
      {"sync-bn", "false", true},
      {"shards", ""},
      {"trace", ""},
      {"output", ""},
  };
  return options;
}

}  // namespace lockstep::runtime
