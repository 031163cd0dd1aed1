// What people who come from PyTorch type: each word does what it says, or its answer says what to type.
#include "runtime/options/words.h"

#include "data/datasets.h"
#include "kernels/base/error.h"
#include "runtime/options/options.h"
#include "runtime/options/table.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace lockstep::runtime {
namespace {

using Words = std::vector<std::string>;

std::string refusal(const Words& words) {
  return tests::message_of<UsageError>([&] { parse_options(words); });
}

struct Same {
  Words typed;
  Words ours;
};

TEST_CASE("a word of the same meaning does the same") {
  for (const auto& [typed, ours] : std::vector<Same>{
           {{"--learning-rate", "0.1"}, {"--lr", "0.1"}},
           {{"--learning_rate=0.1"}, {"--lr", "0.1"}},
           {{"--steps", "5"}, {"--max-steps", "5"}},
           {{"--num_epochs", "5"}, {"--epochs", "5"}},
           {{"--batch_size", "5"}, {"--batch-size", "5"}},
           {{"-b", "5"}, {"--batch-size", "5"}},
           {{"-b=5"}, {"--batch-size", "5"}},
           {{"--batch", "5"}, {"--batch-size", "5"}},
           {{"-j", "5"}, {"--num-workers", "5"}},
           {{"--num_workers", "5"}, {"--num-workers", "5"}},
           {{"--arch", "mlp"}, {"--model", "mlp"}},
           {{"--wd", "0.1"}, {"--weight-decay", "0.1"}},
           {{"--momentum", "0.9"}, {"--momentum=0.9"}},
           {{"--max_grad_norm", "1"}, {"--clip-grad-norm", "1"}},
           {{"--data_dir", "d"}, {"--data-dir", "d"}},
           {{"--dataset-path", "d"}, {"--data-dir", "d"}},
           {{"--data-path", "d"}, {"--data-dir", "d"}},
           {{"--output-dir", "d"}, {"--run-dir", "d"}},
           {{"--save_dir", "d"}, {"--run-dir", "d"}},
           {{"--log-interval", "5"}, {"--log-every", "5"}},
           {{"--print-freq", "5"}, {"--log-every", "5"}},
           {{"--random-seed", "5"}, {"--seed", "5"}},
           {{"--resume-from-checkpoint", "d"}, {"--resume", "d"}},
           {{"--accum-steps", "4"}, {"--accumulate-steps", "4"}},
           {{"--gradient_accumulation_steps", "4"}, {"--accumulate-steps", "4"}},
           {{"--accumulate_grad_batches", "4"}, {"--accumulate-steps", "4"}},
           {{"--gradient-checkpointing"}, {"--recompute"}},
           {{"--lr_scheduler", "cosine"}, {"--lr-schedule", "cosine"}},
           {{"--mixed-precision", "bf16"}, {"--amp", "bf16"}},
           {{"--amp"}, {"--amp", "auto"}},
           {{"--scheduler", "StepLR"}, {"--lr-schedule", "step"}},
           {{"--lr-schedule=cosine_annealing_lr"}, {"--lr-schedule", "cosine"}},
           {{"--num_warmup_steps", "5"}, {"--warmup-steps", "5"}},
           {{"--min-lr", "1e-5"}, {"--lr-min", "1e-5"}},
           {{"--lr-step-size", "2", "--gamma", "0.5"}, {"--lr-step-epochs", "2", "--lr-gamma", "0.5"}},
           {{"--gradient-clipping", "1"}, {"--clip-grad-norm", "1"}},
           {{"--pin-memory"}, {"--pin-memory", "auto"}},
           {{"--clip_value", "1"}, {"--clip-grad-value", "1"}},
           {{"--adam_epsilon", "1e-6"}, {"--eps", "1e-6"}},
           {{"--label_smoothing", "0.1"}, {"--label-smoothing", "0.1"}},
           {{"--label_smoothing_factor", "0.1"}, {"--label-smoothing", "0.1"}},
           {{"--num_beams", "4"}, {"--beam", "4"}},
           {{"--ema_decay", "0.99"}, {"--ema", "0.99"}},
           {{"--detect_anomaly"}, {"--detect-anomaly"}},
           {{"--resume"}, {"--resume", "auto"}},
           {{"--resume", "--epochs", "2"}, {"--resume=auto", "--epochs", "2"}},
           {{"--betas", "0.9", "0.98"}, {"--betas", "0.9,0.98"}},
           {{"--betas", "0.9", "0.98", "--lr", "1"}, {"--betas", "0.9,0.98", "--lr", "1"}},
           {{"--image-shape", "3,224,224"}, {"--image-shape", "3x224x224"}},
           {{"--image-shape", "3X224X224"}, {"--image-shape", "3x224x224"}},
           {{"--optimizer", "SGD"}, {"--optimizer", "sgd"}},
           {{"--optimizer", "Adam_W"}, {"--optimizer", "adamw"}},
           {{"--model", "SimpleCNN"}, {"--model", "simplecnn"}},
           {{"--model", "Simple-CNN"}, {"--model", "simplecnn"}},
           {{"--model", "MLP"}, {"--model", "mlp"}},
           {{"--dataset", "FakeData"}, {"--dataset", "synthetic"}},
           {{"--dataset", "fake_data"}, {"--dataset", "synthetic"}},
           {{"--dataset", "FashionMNIST"}, {"--dataset", "fashion-mnist"}},
           {{"--dataset", "fashion_mnist"}, {"--dataset", "fashion-mnist"}},
           {{"--device", "gpu"}, {"--device", "cuda"}},
           {{"--model=linear", "--model-args", "in_features=20,out_features=2"},
            {"--model=linear", "--model-args", "in=20,out=2"}},
           {{"--model=mlp", "--model-args", "hidden_size=20"}, {"--model=mlp", "--model-args", "hidden=20"}},
           {{"--model=ResNet-50", "--model-args", "classes=20"},
            {"--model=resnet50", "--model-args", "num_classes=20"}},
       }) {
    INFO(typed.front() << ' ' << typed.back() << " as " << ours.front());
    std::string understood;
    CHECK_NOTHROW(understood = to_ini(parse_options(typed)));
    CHECK(understood == to_ini(parse_options(ours)));
  }
}

struct Answer {
  Words typed;
  std::string answer;
};

TEST_CASE("a word of another meaning is answered with what to type") {
  const std::string ranks = ": ranks are started by `launch --nproc_per_node=N trainer ...`";
  const std::string own_rank = ": a rank learns who it is from its launcher's environment; leave it out";
  const std::string low_precision = ": --amp bf16 does it, or --amp fp16 on a GPU";
  const std::string no_best =
      ": no run ends early or picks its best: log.jsonl has each evaluation, --keep 0 keeps all checkpoints, "
      "--ema 0.999 averages weights";
  const std::string own_log = ": every run writes log.jsonl in its folder, and no other log; leave it out";
  for (const auto& [typed, answer] : std::vector<Answer>{
           {{"--world-size", "2"}, "--world-size" + ranks},
           {{"--world_size=2"}, "--world_size" + ranks},
           {{"--gpus", "2"}, "--gpus" + ranks},
           {{"--nproc-per-node", "2"}, "--nproc-per-node" + ranks},
           {{"--local-rank", "0"}, "--local-rank" + own_rank},
           {{"--local_rank=0"}, "--local_rank" + own_rank},
           {{"--persistent-workers"}, "--persistent-workers: always done; leave it out"},
           {{"--fp16"}, "--fp16" + low_precision},
           {{"--lr-schedule", "OneCycleLR"},
            "--lr-schedule: OneCycleLR is PyTorch's; there are constant, step, cosine and linear"},
           {{"--lr_decay", "0.1"},
            "--lr_decay: it is a schedule: --lr-schedule step --lr-gamma X, or cosine, or linear"},
           {{"--warmup-epochs", "5"}, "--warmup-epochs: --warmup-steps N counts steps"},
           {{"--adam-beta1", "0.9"}, "--adam-beta1: give both: --betas B1,B2"},
           {{"--warmup_ratio", "0.1"}, "--warmup_ratio: --warmup-steps N counts steps"},
           {{"--dropout", "0.1"}, "--dropout: it is an argument of the model: --model-args dropout=P"},
           {{"--n_layer=6"}, "--n_layer: it is an argument of the model: --model-args n_layer=N"},
           {{"--early-stopping"}, "--early-stopping" + no_best},
           {{"--patience", "3"}, "--patience" + no_best},
           {{"--save_best"}, "--save_best" + no_best},
           {{"--load_best_model_at_end"}, "--load_best_model_at_end" + no_best},
           {{"--report_to", "wandb"}, "--report_to" + own_log},
           {{"--tensorboard"}, "--tensorboard" + own_log},
           {{"--do_sample"}, "--do_sample: done unless you say --temperature 0; leave it out"},
           {{"--val-split", "0.1"},
            "--val-split: no share is split off: `trainer datasets` says which files are evaluated"},
           {{"--model-ema"}, "--model-ema: give its decay: --ema 0.999"},
           {{"--shuffle"}, "--shuffle: done unless you say --no-shuffle; leave it out"},
           {{"--in_features", "20"}, "--in_features: it is an argument of the model: --model-args in=N"},
           {{"--list-models"}, "--list-models: type `trainer models`"},
           {{"--backend", "gloo"}, "--backend: gloo is PyTorch's; on CPUs ranks exchange by --backend host"},
           {{"--dist-backend", "gloo"},
            "--backend: gloo is PyTorch's; on CPUs ranks exchange by --backend host"},
           {{"--dataset", "CIFAR100"},
            "--dataset: CIFAR100 is not in this version; its shape: synthetic with --image-shape 3x32x32"},
           {{"--lr"}, "--lr needs a value: X"},
           {{"--lr", "--epochs", "2"}, "--lr needs a value: X"},
           {{"--betas", "0.9"}, "--betas: '0.9' is not two numbers, such as 0.9,0.999"},
           {{"--lr", "0.1", "0.2"},
            "'0.2' belongs to no option: options begin with --, and a command comes first; see trainer "
            "--help"},
       }) {
    CHECK(refusal(typed) == answer);
  }
}

TEST_CASE("with a plugin a hint's word may be the name of its model or data set") {
  const Options options =
      parse_options({"--plugin", "p.so", "--dataset", "CIFAR100", "--model", "simple_cnn"});
  CHECK(options.dataset == "CIFAR100");
  CHECK(options.model == "simplecnn");
}

TEST_CASE("an unknown option is echoed as typed and names three near ones at most") {
  for (const auto& [typed, answer] : std::vector<Answer>{
           {{"-m", "mlp"}, "unknown option '-m'; `trainer --help` lists them"},
           {{"--foo", "3"}, "unknown option '--foo'; `trainer --help` lists them"},
           {{"--weight_decya", "0"},
            "unknown option '--weight_decya', did you mean '--weight-decay'? `trainer --help` lists them"},
           {{"-lr", "1"}, "unknown option '-lr', did you mean '--lr'? `trainer --help` lists them"},
           {{"--every", "1"},
            "unknown option '--every', did you mean '--checkpoint-every', '--log-every' or '--eval-every'? "
            "`trainer --help` lists them"},
       }) {
    CHECK(refusal(typed) == answer);
  }
}

TEST_CASE("an unknown model or data set names near ones and where the list is") {
  const auto unknown_model = [](const char* name) {
    return tests::message_of<UsageError>([&] { model::find_model(name, {}); });
  };
  CHECK(unknown_model("alexnet") == "unknown model 'alexnet'; `trainer models` lists them");
  CHECK(unknown_model("SimpelCNN") ==
        "unknown model 'SimpelCNN', did you mean 'simplecnn'? `trainer models` lists them");
  CHECK(model::find_model("Simple_CNN", {}).name == "simplecnn");
  const auto unknown_data = [](const char* name) {
    return tests::message_of<UsageError>([&] { data::dataset_spec({.name = name}); });
  };
  CHECK(unknown_data("mnits") ==
        "unknown dataset 'mnits', did you mean 'mnist'? `trainer datasets` lists them");
  CHECK(unknown_data("coco") == "unknown dataset 'coco'; `trainer datasets` lists them");
  CHECK(data::dataset_spec({.name = "FashionMNIST"}).num_classes == 10);
}

TEST_CASE("betas are two numbers, with a comma, blanks or both between them") {
  for (const char* betas : {"0.8,0.98", "0.8, 0.98", " 0.8 ,0.98 ", "0.8 0.98", "0.8  0.98"}) {
    INFO(betas);
    const model::OptimizerOptions o = parse_options({"--betas", betas}).optimizer;
    CHECK(o.beta1 == 0.8);
    CHECK(o.beta2 == 0.98);
  }
  CHECK_FALSE(refusal({"--betas", "0.8,,0.98"}).empty());
  CHECK_FALSE(refusal({"--betas", "0.8,"}).empty());
  CHECK_FALSE(refusal({"--betas", "0.8 0.9 0.98"}).empty());
}

TEST_CASE("every row of the tables has an alias that exists or a hint, and no name of ours") {
  for (const FieldWord& row : option_words()) {
    INFO(row.word);
    CHECK(row.ours.empty() != row.hint.empty());
    CHECK(find_entry(std::string(row.word)) == nullptr);
    const std::string ours(row.ours);
    CHECK((ours.empty() || find_entry(ours) != nullptr || find_future(ours) != nullptr));
    CHECK(find_word(option_words(), row.word) == &row);
  }
  for (const auto words : {command_words(), dataset_words(), model_words(), device_words(), backend_words(),
                           model_argument_words()}) {
    for (const FieldWord& row : words) CHECK(row.ours.empty() != row.hint.empty());
  }
}

}  // namespace
}  // namespace lockstep::runtime
