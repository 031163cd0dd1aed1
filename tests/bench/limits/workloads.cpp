#include "tests/bench/limits/workloads.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "runtime/run/run_plans.h"
#include "runtime/run/task.h"

namespace lockstep::bench {
namespace {

struct Workload {
  const char* name;
  Table table;  ///< beside that of its step
  const char* options;
};

// As in tests/bench/compare_workloads.py; the learning rate changes no time.
constexpr std::array workloads{
    Workload{"linear", Table::step, "--model linear --batch-size 32 --optimizer sgd"},
    Workload{"mlp", Table::step, "--model mlp --batch-size 64 --num-classes 10 --image-shape 1x28x28"},
    Workload{"simplecnn", Table::step,
             "--model simplecnn --batch-size 16 --num-classes 10 --image-shape 3x14x14"},
    Workload{"convnet", Table::convolutions,
             "--model convnet --batch-size 64 --num-classes 10 --image-shape 3x28x28"},
    Workload{"mobilenet_v3_small_32", Table::convolutions,
             "--model mobilenet_v3_small --batch-size 64 --num-classes 10 --image-shape 3x32x32"},
    Workload{"resnet18", Table::convolutions,
             "--model resnet18 --batch-size 16 --num-classes 1000 --image-shape 3x224x224 --optimizer sgd "
             "--momentum 0.9 --weight-decay 1e-4"},
    Workload{"resnet50", Table::convolutions,
             "--model resnet50 --batch-size 8 --num-classes 1000 --image-shape 3x224x224 --optimizer sgd "
             "--momentum 0.9 --weight-decay 1e-4"},
    Workload{"rnn", Table::products, "--model rnn --batch-size 32"},
    Workload{"lstm", Table::products, "--model lstm --batch-size 32"},
    Workload{"transformer", Table::products,
             "--model transformer --batch-size 16 --model-args positions=learned"},
    Workload{"gpt_char", Table::products,
             "--model gpt2 --batch-size 12 --optimizer adamw --model-args "
             "n_layer=4,n_head=4,n_embd=128,block_size=64,vocab_size=65,dropout=0"},
    Workload{"gpt2", Table::products,
             "--model gpt2 --batch-size 1 --optimizer adamw --model-args block_size=256,dropout=0"}};

std::vector<std::string> options_of(const Workload& workload, bool bf16) {
  std::vector<std::string> words{"--dataset", "synthetic", "--amp", bf16 ? "bf16" : "off"};
  std::istringstream own(workload.options);
  for (std::string word; own >> word;) words.push_back(word);
  return words;
}

}  // namespace

std::vector<std::string> workloads_of(Table table) {
  std::vector<std::string> names;
  for (const Workload& workload : workloads) {
    if (table == Table::step || table == workload.table) names.emplace_back(workload.name);
  }
  return names;
}

runtime::Plan plan_of(const std::string& workload, bool bf16, const kernels::Device& device) {
  const runtime::Options options =
      runtime::parse_options(options_of(*std::ranges::find(workloads, workload, &Workload::name), bf16));
  const runtime::TrainingTask task = runtime::make_task_without_data(options);
  return runtime::make_plan(task.model, task.input,
                            runtime::training_request(options, {.batch = options.batch_size}, 1, {}), device,
                            runtime::plan_constraints(options));
}

}  // namespace lockstep::bench
