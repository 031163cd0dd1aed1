#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/datasets.h"
#include "kernels/matmul.h"
#include "model/optimizer.h"
#include "model/zoo/zoo.h"

namespace lockstep::runtime {

/// --batch-size auto.
inline constexpr std::int64_t automatic_batch = 0;
/// Samples of a step over all ranks at most: the ranks sum their counts in fp32, which is exact up to here.
inline constexpr std::int64_t most_global_batch = std::int64_t{1} << 24;

/// How `trainer predict` writes on.
struct GenerationOptions {
  std::vector<std::string> prompts;
  std::filesystem::path prompt_file;  ///< a prompt a line, behind those
  std::int64_t max_new_tokens = 100;
  double temperature = 1;
  std::int64_t top_k = 0;  ///< 0: all
  double top_p = 1;
  /// A text that ends it, beside the model's own end; empty: not that either.
  std::optional<std::string> stop;
  std::int64_t beam = 1;  ///< hypotheses; 1: tokens are drawn

  bool asked_for() const { return !prompts.empty() || !prompt_file.empty(); }
  bool has_prompts_in_standard_input() const { return prompt_file == "-"; }
};

/// Everything that `trainer` can be told, with its defaults. Sizes not given are settled by the run.
struct Options {
  std::vector<std::filesystem::path> plugins;
  std::string model;
  model::ModelArgs model_args;
  /// The file beside weights, or of them, that told an argument which nobody typed, by its name.
  std::map<std::string, std::filesystem::path> model_arg_files;
  std::filesystem::path init_from;

  std::string dataset = "fashion-mnist";
  std::filesystem::path data_dir;
  bool data_are_new = false;  ///< to weights that are scored: the run that they are of has others
  bool download = false;      ///< fetch what is missing of a published set
  std::int64_t samples = 10000;
  Shape image_shape;                  ///< synthetic; empty: what the model wants
  std::int64_t num_classes = -1;      ///< synthetic, shards, tensors; -1: what the model wants
  std::int64_t seq_len = 0;           ///< tokens of a sample, but of tensors; 0: what the model wants
  std::int64_t vocab_size = 0;        ///< 0: what the data have; synthetic: what the model wants
  std::int64_t batch_size = 64;       ///< per rank and micro-batch; automatic_batch until the run settles it
  std::int64_t global_batch = 0;      ///< 0: not given
  std::int64_t accumulate_steps = 1;  ///< micro-batches of a step
  int num_workers = -1;               ///< -1: cores / local ranks
  int prefetch_factor = 2;
  bool drop_last = false;
  bool no_shuffle = false;  ///< epochs in the data set's order
  std::string transform;    ///< of pictures; empty: the data set's own, if the run did not settle it
  std::string eval_transform;
  std::string corrupt_samples = "fail";
  std::string data_device = "auto";  ///< gpu: it keeps the samples' data; auto until the device is known
  std::string pin_memory = "auto";   ///< of batches that travel to a GPU; or off

  std::string windows;                ///< of text and tokens; empty: random
  std::string token_dtype;            ///< of tokens without a header; empty: uint16
  std::filesystem::path tokenizer;    ///< of text; empty: its characters
  std::filesystem::path target_file;  ///< of parallel text

  std::int64_t epochs = 0;     ///< 0: not given
  std::int64_t max_steps = 0;  ///< 0: no limit
  model::OptimizerOptions optimizer;
  bool weight_decay_given = false;
  std::optional<float> label_smoothing;  ///< none: the model's own
  double clip_grad_norm = 0;             ///< 0: not clipped
  double ema = 0;                        ///< decay of the moving average of weights; 0: none
  std::vector<std::string> freeze;       ///< patterns of parameters' names
  bool allow_unused = false;
  std::uint64_t seed = 0;

  std::string device = "auto";
  std::string cuda_graph = "auto";
  int threads = 0;  ///< 0: OMP_NUM_THREADS, or cores / local ranks
  bool benchmark = false;
  bool recompute = false;
  bool detect_anomaly = false;
  bool sync_launch = false;
  kernels::MatmulPrecision matmul_precision = kernels::MatmulPrecision::highest;
  std::optional<kernels::MatmulPrecision> conv_precision;  ///< none until the device is known: its own
  std::string amp = "off";  ///< off, bf16, fp16; auto until the device is known

  std::string backend = "auto";
  double bucket_cap_mb = 25;
  double first_bucket_mb = 1;
  bool no_overlap = false;
  bool shard_optimizer = false;  ///< each rank updates a shard, and keeps the state of that alone
  std::string grad_dtype = "fp32";
  std::string embedding_exchange = "auto";
  bool sync_bn = false;  ///< batch norm's statistics of all ranks' samples
  double timeout = 600;
  std::string world;      ///< --world SOURCE; empty: by precedence
  std::string interface;  ///< empty: the one that faces rank 0
  int first_port = 0;     ///< --port-range; 0: any free port
  int last_port = 0;
  std::filesystem::path token_file;
  bool insecure = false;
  std::string data_security = "tls";

  std::filesystem::path run_dir;
  std::int64_t checkpoint_every = 0;  ///< steps; 0: only when stopped
  std::int64_t max_shard_bytes = 0;   ///< of the final weights; 0: one file
  std::int64_t keep = 3;              ///< checkpoints; 0: all
  std::string resume;                 ///< auto, none, a path; empty: by whether a launcher restarted us

  std::int64_t log_every = 50;
  std::int64_t eval_every = 1;  ///< epochs; of synthetic data never unless given
  bool eval_every_given = false;
  std::int64_t eval_samples = 0;  ///< 0: the whole test set
  std::string progress = "auto";
  bool quiet = false;
  std::filesystem::path output;  ///< of predict
  GenerationOptions generation;
  std::filesystem::path dump_gradients;

  std::vector<std::string> typed;  ///< options that a user named, there or in a file that no run wrote
  std::vector<std::string> on_command_line;  ///< those of them that are no file's
  bool is_typed(std::string_view option) const;
  bool is_on_command_line(std::string_view option) const;
};

/// Parses `arguments` (without program and command) and, if named there, `--config FILE`; the command line
/// wins.
/// '-' and '_' are the same in every option. UsageError is one line with the nearest valid name.
Options parse_options(const std::vector<std::string>& arguments);

struct OptionReader;

/// The same for a command (`option_readers.h`): what the command line has and it does not read is refused,
/// what a file has is left aside. `dataset`: which is meant where none is given; empty: the usual one.
Options parse_options_for(const OptionReader& command, const std::vector<std::string>& arguments,
                          const std::string& dataset = {});

/// What a command that takes operands (`trainer eval RUN`) was told.
struct CommandOptions {
  Options options;
  std::vector<std::string> operands;
  bool data_given = false;  ///< --dataset or --data-dir was typed
};

/// The same for a command with operands. `config_of` names the config.ini of the run that the first operand
/// is in, if there is one: what it says of model, data and precision is what is not typed. Further operands
/// are pictures: where no run tells of which data set, of image-folder.
CommandOptions parse_options_of_run(
    const std::vector<std::string>& arguments,
    const std::function<std::optional<std::filesystem::path>(const std::string& operand)>& config_of);

/// What `parse_options` understood, as the ini file that gives it back: RUN/config.ini.
std::string to_ini(const Options& options);

/// The table of options with their groups and defaults, for --help. `reader`: those alone that it reads.
std::string options_help(const OptionReader* reader = nullptr);

/// Samples per rank and micro-batch: --batch-size, or --global-batch over the micro-batches of all ranks.
/// UsageError when that does not divide.
std::int64_t batch_size_per_rank(const Options& options, int world_size);

/// Whether batches that travel to a GPU lie in pinned memory.
inline bool pins_memory(const Options& options) {
  return options.pin_memory != "off";
}

}  // namespace lockstep::runtime
