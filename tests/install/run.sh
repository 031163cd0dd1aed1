#!/bin/bash
# tests/install/run.sh BUILD TREE CMAKE-OPTIONS...: installs BUILD into TREE/installed, builds program/ against it with
# find_package(lockstep) alone, and trains with it on two ranks under the installed `launch`.
set -euo pipefail
build=$1 tree=$2
shift 2
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")

rm -rf "$tree"
cmake --install "$build" --prefix "$tree/installed" >/dev/null
cmake -G Ninja -S "$here/program" -B "$tree/build" -DCMAKE_PREFIX_PATH="$tree/installed" "$@"
cmake --build "$tree/build"
"$tree/installed/bin/launch" --nproc_per_node=2 "$tree/build/program" \
  --batch-size 64 --lr 0.01 --epochs 5 --run-dir "$tree/run"

# A network that learnt nothing has half of the points right.
grep -qE '"world_size": *2\b' "$tree/run/summary.json"
accuracy=$(grep -oE '"accuracy": *[0-9.]+' "$tree/run/summary.json" | grep -oE '[0-9.]+$')
echo "accuracy $accuracy"
awk -v accuracy="$accuracy" 'BEGIN {exit !(accuracy >= 0.95)}'
