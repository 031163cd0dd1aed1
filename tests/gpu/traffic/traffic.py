#!/usr/bin/env python3
"""Bytes that each launch of our own kernels moves, on the machine in software, against the bytes that it needs.

Runs kernel_traffic on the steps of some models and compares with the golden file: of each kernel the largest launch and the one
with the worst ratio, and the names of those that none launches. A launch that moves over 1.1 times what it needs wants its reason at
the line's end; launches that need less than a page are looked at in the golden file alone, since whole sectors are most of what they
move. Another compiler may order loads in another way: 2 % is no difference."""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
GOLDEN = HERE.parent / "goldens/traffic.txt"
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from resources import readable

WORST, PAGE, SAME = 1.1, 4096, 0.02
GPT2 = "--model gpt2 --seq-len 256 --batch-size 4 --model-args n_layer=1,n_head=2,n_embd=128,block_size=256,vocab_size="
CASES = (
    (GPT2 + "2000", {}),
    (GPT2 + "12000 --embedding-exchange rows", {}),
    (GPT2 + "12000 --amp bf16 --optimizer adamw --clip-grad-norm 1 --ema 0.99", {}),
    ("--model mobilenet_v3_small --image-shape 3x64x64 --batch-size 16 --optimizer sgd --momentum 0.9", {}),
    ("--model resnet18 --image-shape 3x64x64 --batch-size 8 --amp bf16", {}),
    ("--model convnet --batch-size 64", {}),
    ("--model convnet --batch-size 64", {"SIMGPU_FUSED_RELU": "drops-nan"}),
    ("--model rnn --batch-size 32 --model-args vocab_size=2000,dropout=0.1", {}),
    ("--model lstm --batch-size 16 --model-args vocab_size=2000,embedding=128,hidden=128,num_classes=2000", {}),
    ("--model transformer --batch-size 16 --model-args vocab_size=2000,d_model=128,layers=1", {}),
)
LINE = re.compile(r"(?P<launch>(?P<kernel>[^<:]+).*): needs (?P<needs>\d+), moves (?P<moves>\d+), [\d.]+(?:: (?P<reason>.+))?")


def launches(program, case):
    """(kernel's place, what it was launched with, needs, moves) of each launch."""
    options, variables = case
    command = [program, "--device", "cuda", "--dataset", "synthetic", "--threads", "1", *options.split()]
    environment = {**os.environ, **variables, "SIMGPU_THREAD_ORDER": "forward", "SIMGPU_POLICY": "eager"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"traffic.py: {' '.join(command)}\n{done.stderr}")
    for line in done.stdout.splitlines():
        place, op, operands, grid, needs, moves = line.split("\t")
        yield place, f"{op}, {operands}, {grid}", int(needs), int(moves)


def kernel_names(program):
    """{place in the module: the kernel's name, without parameters}."""
    module = program.parent / "liblockstep_cuda.so"
    symbols = {}
    for line in subprocess.run(["nm", "--defined-only", module], capture_output=True, text=True, check=True).stdout.splitlines():
        value, kind, name = line.split()
        if kind in "tTwW":
            symbols[f"{module.name}+{int(value, 16):#x}"] = name
    names = readable(symbols.values())
    return {place: without_parameters(names[name].removeprefix("void ")) for place, name in symbols.items()}


def without_parameters(name):
    """Ends before the first bracket that stands in no angle brackets."""
    depth = 0
    for at, letter in enumerate(name):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "(" and depth == 0:
            return name[:at]
    return name


def ratio(launch):
    return launch[2] / max(launch[1], 1)


def lines_of(program):
    """{kernel and launch: (needs, moves)}: of each kernel the largest launch and the worst."""
    names = kernel_names(program)
    by_kernel = collections.defaultdict(set)
    for case in CASES:
        for place, what, needs, moves in launches(program, case):
            by_kernel[names[place]].add((f"{names[place]}: {what}", needs, moves))
    found = {}
    for seen in by_kernel.values():
        ordered = sorted(seen)
        of_size = [launch for launch in ordered if launch[1] >= PAGE]
        # Launches that look alike may differ, as the first of many steps does: the largest stays.
        for launch in (max(of_size or ordered, key=ratio), max(ordered, key=lambda one: one[1])):
            found[launch[0]] = launch[1:]
    return found


def never_launched(found):
    """The golden file's last line: kernels of our sources that no case launches."""
    seen = {re.match(r"\w+", launch)[0] for launch in found}
    sources = [*ROOT.glob("kernels/cuda/*.cu"), *ROOT.glob("kernels/cuda/*.h")]
    texts = [re.sub(r"__launch_bounds__\([^)]*\)", "", source.read_text()) for source in sources]
    kernels = {name for text in texts for name in re.findall(r"__global__\s+void\s+(\w+)\(", text)}
    return "# launched by none of these steps: " + ", ".join(sorted(kernels - seen))


def text_of(found, reasons):
    lines = []
    for launch, (needs, moves) in sorted(found.items()):
        line = f"{launch}: needs {needs}, moves {moves}, {moves / max(needs, 1):.2f}"
        if needs >= PAGE and moves > WORST * needs:
            line += ": " + reasons.get(re.match(r"\w+", launch)[0], "no reason yet")
        lines.append(line)
    return "\n".join([*lines, never_launched(found)]) + "\n"


def complaints(found, golden):
    for launch, (needs, moves) in sorted(found.items()):
        was = golden.get(launch)
        if was is None:
            yield f"not in the golden file: {launch}: needs {needs}, moves {moves}"
        elif any(abs(now - int(was[what])) > SAME * int(was[what]) for now, what in ((needs, "needs"), (moves, "moves"))):
            yield f"{launch}: needs {needs} (was {was['needs']}), moves {moves} (was {was['moves']})"
        elif needs >= PAGE and moves > WORST * needs and was["reason"] in (None, "no reason yet"):
            yield f"moves {moves / needs:.2f} times what it needs, and no reason stands beside it: {launch}"
    for launch in sorted(golden.keys() - found.keys()):
        yield f"in the golden file, and not launched: {launch}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/simgpu/bin/counted/kernel_traffic")
    parser.add_argument("--rewrite", action="store_true", help="write the golden file anew; a kernel's reason stays")
    options = parser.parse_args()
    if not options.program.exists():
        sys.exit(f"traffic.py: no {options.program}: cmake --build --preset simgpu --target kernel_traffic")
    text = GOLDEN.read_text() if GOLDEN.exists() else ""
    golden = {match["launch"]: match for match in map(LINE.fullmatch, text.splitlines()) if match}
    found = lines_of(options.program.resolve())
    if options.rewrite:
        reasons = {match["kernel"]: match["reason"] for match in golden.values() if match["reason"]}
        GOLDEN.write_text(text_of(found, reasons))
        return
    wrong = list(complaints(found, golden))
    if not text.endswith((last_line := never_launched(found)) + "\n"):
        wrong.append(f"not the golden file's last line: {last_line}")
    print(f"{len(found)} launches of our kernels, {sum(1 for n, m in found.values() if n >= PAGE and m > WORST * n)} over {WORST}")
    if wrong:
        sys.exit("\n".join(wrong) + f"\ntraffic.py: if that is wanted, run {HERE.relative_to(ROOT)}/traffic.py --rewrite, "
                 "give reasons, and commit it")


if __name__ == "__main__":
    main()
