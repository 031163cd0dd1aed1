#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/datasets.h"
#include "kernels/matmul.h"
#include "model/optimizer.h"
#include "model/zoo/zoo.h"

namespace lockstep::runtime {

/// Samples of a step over all ranks at most: the ranks sum their counts in fp32, which is exact up to here.
inline constexpr std::int64_t most_global_batch = std::int64_t{1} << 24;

/// Everything that `trainer` can be told, with its defaults. Sizes not given are settled by the run.
struct Options {
  std::vector<std::filesystem::path> plugins;
  std::string model;
  model::ModelArgs model_args;
  std::filesystem::path init_from;

  std::string dataset = "fashion-mnist";
  std::filesystem::path data_dir;
  std::int64_t samples = 10000;
  Shape image_shape;              ///< synthetic; empty: what the model wants
  std::int64_t num_classes = -1;  ///< synthetic; -1: what the model wants
  std::int64_t batch_size = 64;   ///< per rank
  std::int64_t global_batch = 0;  ///< 0: not given
  int num_workers = -1;           ///< -1: cores / local ranks
  int prefetch_factor = 2;
  bool drop_last = false;

  std::int64_t epochs = 0;     ///< 0: not given
  std::int64_t max_steps = 0;  ///< 0: no limit
  model::OptimizerOptions optimizer;
  bool weight_decay_given = false;
  double label_smoothing = 0;
  double clip_grad_norm = 0;  ///< 0: not clipped
  bool allow_unused = false;
  std::uint64_t seed = 0;

  std::string device = "auto";
  std::string cuda_graph = "auto";
  int threads = 0;  ///< 0: OMP_NUM_THREADS, or cores / local ranks
  bool benchmark = false;
  kernels::MatmulPrecision matmul_precision = kernels::MatmulPrecision::highest;

  std::string backend = "auto";
  double bucket_cap_mb = 25;
  double first_bucket_mb = 1;
  bool no_overlap = false;
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
  std::int64_t keep = 3;              ///< checkpoints; 0: all
  std::string resume;                 ///< auto, none, a path; empty: by whether a launcher restarted us

  std::int64_t log_every = 50;
  std::int64_t eval_every = 1;  ///< epochs; of synthetic data never unless given
  bool eval_every_given = false;
  std::int64_t eval_samples = 0;  ///< 0: the whole test set
  std::string progress = "auto";
  bool quiet = false;
  std::filesystem::path dump_gradients;
};

/// Parses `arguments` (without program and command) and, if named there, `--config FILE`; the command line
/// wins.
/// '-' and '_' are the same in every option. UsageError is one line with the nearest valid name.
Options parse_options(const std::vector<std::string>& arguments);

/// What `parse_options` understood, as the ini file that gives it back: RUN/config.ini.
std::string to_ini(const Options& options);

/// The table of options with their groups and defaults, for --help.
std::string options_help();

/// Samples per rank and step: --batch-size, or --global-batch over the ranks. UsageError when that does not
/// divide.
std::int64_t batch_size_per_rank(const Options& options, int world_size);

}  // namespace lockstep::runtime
