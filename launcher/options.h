#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "comm/world/environment.h"

namespace lockstep::launcher {

/// Which of a worker's streams: bit 0 stdout, bit 1 stderr; torchrun's "3", or per local rank "0:1,1:2".
class StreamChoice {
 public:
  StreamChoice() = default;
  /// UsageError names `option` when `text` is neither form.
  static StreamChoice parse(const std::string& option, const std::string& text);

  /// `stream` is 1 (stdout) or 2 (stderr).
  bool has(int local_rank, int stream) const;
  bool any() const { return all_ != 0 || !ranks_.empty(); }
  /// The highest local rank that is named; -1 for none.
  int last_rank() const { return ranks_.empty() ? -1 : ranks_.rbegin()->first; }

 private:
  int all_ = 0;
  std::map<int, int> ranks_;
};

/// What the user typed, checked. Names are torchrun's.
struct Options {
  bool help = false;
  bool version = false;

  std::vector<std::string> command;  ///< PROGRAM and its ARGS
  bool module = false;               ///< PROGRAM is a Python module
  bool no_python = false;            ///< run a .py file itself, not under python3

  std::string nproc_per_node = "1";  ///< a number, cpu, gpu or auto
  int nnodes = 1;                    ///< as many ranks on each
  int node_rank = 0;                 ///< which of them this is
  std::string master_addr;           ///< 127.0.0.1 unless told
  int master_port = 0;               ///< 0: a free one; of several nodes 29500 unless told
  std::string run_id;                ///< empty: launch makes one; of several nodes "none" unless told
  std::string role = "default";

  bool allow_gpu_sharing = false;
  bool binds = true;  ///< each rank to a slice of the cores

  int max_restarts = 0;          ///< of all ranks of this node, after failures
  double shutdown_timeout = 30;  ///< seconds
  std::vector<int> signals;      ///< passed on to the workers

  std::string log_dir;
  StreamChoice redirects;
  StreamChoice tee;
  std::vector<int> shown_ranks;  ///< local ranks on the console; empty: all
  std::string prefix_template;   ///< empty: "[rank<n>] ", on a terminal only

  std::set<std::string> from_environment;  ///< options that PET_<NAME> gave, for messages
};

/// Reads `arguments` (without the program's own name) and, for what they leave open, PET_<NAME> variables.
/// UsageError for an unknown option (with the nearest one), a bad value, or what this version cannot do.
Options parse_options(const std::vector<std::string>& arguments, const comm::Environment& environment);

/// UsageError for an option that names a local rank beyond the `ranks` of this node: a rank's output would be
/// lost without a word.
void check_local_ranks(const Options& options, int ranks);

std::string help_text();

}  // namespace lockstep::launcher
