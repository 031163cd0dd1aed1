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
"$tree/installed/bin/launch" --nproc_per_node=2 "$tree/build/program" "$tree/run"
