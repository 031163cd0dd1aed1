"""The comparisons of accuracies that `accuracy` starts."""
import argparse
import json
import pathlib
import statistics
import tempfile

from programs import HERE, LAUNCH, TORCHRUN, TRAINER, run_well, summary_of

LEAST = 0.885
POINT = 0.01
HOUR_S = 3600
RESNET18 = {"epochs": 2, "batch-size": 128, "lr": 0.02, "momentum": 0.9, "weight-decay": 5e-4}


def words(options):
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def accuracy_of_ours(model, seed, *options):
    with tempfile.TemporaryDirectory(prefix="lockstep-accuracy-") as folder:
        run = pathlib.Path(folder) / "run"
        run_well([LAUNCH, "--nproc_per_node=2", TRAINER, "--model", model, "--dataset", "fashion-mnist", "--threads", 1,
                  "--seed", seed, "--quiet", "--run-dir", run, *options], HOUR_S)
        summary = summary_of(run)
    return summary["eval"]["accuracy"], summary["samples_per_s"]


def accuracy_in_pytorch(seed, *options):
    done = run_well([*TORCHRUN, "--nproc_per_node=2", HERE / "fashion_ddp.py", "--seed", seed, *options], HOUR_S)
    report = json.loads(done.stdout)
    return report["accuracy"], report["samples_per_s"]


def mean_accuracy(title, seeds, score):
    """The mean over the seeds, which are printed as they come."""
    accuracies = []
    for seed in seeds:
        accuracy, samples_per_s = score(seed)
        print(f"{title}, seed {seed}: {accuracy:.4f}  ({samples_per_s:.0f} samples/s)", flush=True)
        accuracies.append(accuracy)
    print(f"{title}, mean: {statistics.mean(accuracies):.4f}", flush=True)
    return statistics.mean(accuracies)


def convnet(seeds=(0, 1, 2)):
    fp32 = mean_accuracy("convnet fp32", seeds, lambda seed: accuracy_of_ours("convnet", seed, "--epochs", 3))
    bf16 = mean_accuracy("convnet bf16", seeds,
                         lambda seed: accuracy_of_ours("convnet", seed, "--epochs", 3, "--amp", "bf16"))
    return abs(fp32 - bf16) <= 0.7 * POINT and min(fp32, bf16) >= LEAST


def resnet18(seeds=(0, 1)):
    options = words(RESNET18)
    as_theirs = ["--optimizer", "sgd", "--lr-schedule", "cosine", "--eval-every", RESNET18["epochs"]]
    ours = mean_accuracy("resnet18", seeds, lambda seed: accuracy_of_ours("resnet18", seed, *as_theirs, *options))
    theirs = mean_accuracy("resnet18 in PyTorch", seeds, lambda seed: accuracy_in_pytorch(seed, *options))
    return abs(ours - theirs) <= 0.5 * POINT


def main():
    comparisons = {"convnet": convnet, "resnet18": resnet18}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("comparison", nargs="*", default=list(comparisons), help=", ".join(comparisons))
    parser.add_argument("--seeds", type=int, nargs="+", help="other ones than each comparison's own")
    arguments = parser.parse_args()
    if unknown := set(arguments.comparison) - set(comparisons):
        parser.error(f"no comparison: {', '.join(sorted(unknown))}; there are: {', '.join(comparisons)}")
    seeds = [arguments.seeds] if arguments.seeds else []
    too_far = [name for name in arguments.comparison if not comparisons[name](*seeds)]
    if too_far:
        raise SystemExit(f"too far apart, or too low: {', '.join(too_far)}")


if __name__ == "__main__":
    main()
