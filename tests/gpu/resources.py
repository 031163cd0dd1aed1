#!/usr/bin/env python3
"""Registers, stack and static shared memory of our own kernels, as ptxas gives them without a GPU.

Compiles each .cu of a configured build for every architecture that builds have code for, and fails when a kernel spills
registers or when its figures are not those of the golden file of this CUDA. PTX is made for 7.5, 8.0 and 9.0: newer GPUs' code
comes from the last of these here, while a build makes PTX for each."""
import argparse
import collections
import concurrent.futures
import difflib
import json
import os
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ARCHITECTURES = {75: 75, 80: 80, 90: 90, 100: 90, 120: 90}  # of the code: of its PTX. 8.6 and 8.9 run the code of 8.0
FUNCTION = re.compile(
    r"Function properties for (?P<name>\S+)\n"
    r" *(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads\n"
    r"(?:.*Used (?P<registers>\d+) registers(?:.*?(?P<shared>\d+) bytes smem)?)?")


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"resources.py: {shlex.join(map(str, command))}\n{done.stderr}")
    return done.stdout + done.stderr


def compiler_words(entry):
    """The command of the build without what it makes, and for which GPU."""
    words = shlex.split(entry["command"])
    words = words[:words.index("-x")] if "-x" in words else words[:words.index("-c")]
    return [word for word in words if not word.startswith("--generate-code")]


def functions_of(entry, scratch):
    """{architecture: [match of FUNCTION]} of one source: its kernels, and device functions that they call."""
    source = pathlib.Path(entry["file"])
    words = compiler_words(entry)
    found = {}
    for ptx in sorted(set(ARCHITECTURES.values())):
        text = pathlib.Path(scratch) / f"{source.stem}.{ptx}.ptx"
        run([*words, "--ptx", f"--gpu-architecture=compute_{ptx}", source, "-o", text], entry["directory"])
        for code in (code for code, of in ARCHITECTURES.items() if of == ptx):
            said = run([words[0], "--cubin", f"--gpu-architecture=sm_{code}", "--resource-usage", text, "-o",
                        text.with_suffix(f".{code}.cubin")], scratch)
            found[code] = list(FUNCTION.finditer(said))
    return source.relative_to(ROOT), found


def readable(names):
    """{mangled: demangled without parameters and our namespaces}; with parameters where kernels are overloads."""
    names = sorted(names)

    def demangled(*options):
        text = subprocess.run(["c++filt", *options], input="\n".join(names), capture_output=True, text=True, check=True).stdout
        return re.sub(r"lockstep::\w+::|\(anonymous namespace\)::", "", text).splitlines()

    short, long = demangled("-p"), demangled()
    return {name: text if short.count(text) == 1 else whole for name, text, whole in zip(names, short, long)}


def figures(matches, field, unit):
    """ "40 40 42 42 registers", or one number where all are equal; empty where it is always 0."""
    numbers = [match[field] or "0" for match in matches]
    if set(numbers) == {"0"}:
        return ""
    return " ".join(numbers[:1] if len(set(numbers)) == 1 else numbers) + unit


def lines_of(source, found):
    """Of each kernel its line of the golden file, and what spills."""
    by_name = collections.defaultdict(list)
    for code in ARCHITECTURES:
        for match in found[code]:
            by_name[match["name"]].append((code, match))
    names = readable(by_name)
    lines, spills = [], []
    for name, entries in by_name.items():
        matches = [match for _, match in entries]
        spills += [f"{source}: {names[name]}: sm_{code} spills registers: {match['stores']} bytes stored, {match['loads']} loaded"
                   for code, match in entries if int(match["stores"]) + int(match["loads"]) > 0]
        if matches[0]["registers"] is None:  # a function: its kernels' figures have it
            continue
        parts = [figures(matches, "registers", " registers"), figures(matches, "shared", " bytes shared"),
                 figures(matches, "stack", " bytes stack")]
        lines.append(f"{source}: {names[name]}: {', '.join(filter(None, parts))}")
    return sorted(lines), spills


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/cuda-sm90", help="a folder configured with CUDA")
    parser.add_argument("--rewrite", action="store_true", help="write the golden file anew, unless a kernel spills")
    options = parser.parse_args()
    entries = [entry for entry in json.loads((options.build / "compile_commands.json").read_text()) if entry["file"].endswith(".cu")]
    entries.sort(key=lambda entry: -os.path.getsize(entry["file"]))  # the longest first: they end together
    release = re.search(r"release (\d+\.\d+)", run([compiler_words(entries[0])[0], "--version"], ROOT))[1]
    golden = HERE / f"goldens/cuda-{release}.txt"

    lines, spills = [], []
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, found in pool.map(lambda entry: functions_of(entry, scratch), entries):
            of_source, spilt = lines_of(source, found)
            lines, spills = lines + of_source, spills + spilt
    text = "# " + " ".join(f"sm_{code}" for code in ARCHITECTURES) + "\n" + "\n".join(sorted(lines)) + "\n"
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{len(lines)} kernels for {len(ARCHITECTURES)} architectures in {used.ru_utime + used.ru_stime:.0f} s of CPU time")

    print("\n".join(spills), end="\n" if spills else "")
    if spills:
        sys.exit("resources.py: kernels spill registers: give them fewer (launch bounds, smaller tiles)")
    if options.rewrite:
        golden.write_text(text)
    elif not golden.exists():
        print(f"no {golden.name}: only spills were looked for; --rewrite makes it")
    elif changes := list(difflib.unified_diff(golden.read_text().splitlines(), text.splitlines(), "golden", "now", lineterm="", n=0)):
        print("\n".join(changes))
        sys.exit(f"resources.py: kernels have other figures than in {golden.relative_to(ROOT)}: if that is wanted, run "
                 "tests/gpu/resources.py --rewrite and commit it")


if __name__ == "__main__":
    main()
