#!/bin/bash
# tests/install/run.sh BUILD TREE CMAKE-OPTIONS...: installs BUILD into TREE/installed, builds program/ and plugin/
# against it with find_package(lockstep) alone, and trains with both on two ranks under the installed `launch`.
set -euo pipefail
build=$1 tree=$2
shift 2
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
installed=$tree/installed

# build FOLDER: the project FOLDER against the installed tree, into TREE/FOLDER.
build() {
  cmake -G Ninja -S "$here/$1" -B "$tree/$1" -DCMAKE_PREFIX_PATH="$installed" "${@:2}"
  cmake --build "$tree/$1"
}

# learns RUN LEAST: two ranks ended with at least that accuracy on the test set.
learns() {
  grep -qE '"world_size": *2\b' "$1/summary.json"
  local accuracy
  accuracy=$(grep -oE '"accuracy": *[0-9.]+' "$1/summary.json" | grep -oE '[0-9.]+$')
  echo "accuracy $accuracy"
  awk -v accuracy="$accuracy" -v least="$2" 'BEGIN {exit !(accuracy >= least)}'
}

# shows TEXT COMMAND...: it ends with 0 and prints TEXT.
shows() {
  local text=$1 said
  shift
  said=$("$@" 2>&1)
  echo "$said"
  grep -qF -- "$text" <<<"$said"
}

# refuses CODE TEXT COMMAND...: it ends with CODE, and its message has TEXT.
refuses() {
  local code=$1 text=$2 rc=0 said
  shift 2
  said=$("$@" 2>&1) || rc=$?
  echo "$said ($rc)"
  [[ $rc == "$code" ]] && grep -qF -- "$text" <<<"$said"
}

# first_step NAME PROGRAM...: loss and gradients of the program's first step, in TREE/NAME.safetensors.
first_step() {
  "${@:2}" --max-steps 1 --eval-every 0 --run-dir "$tree/$1" --dump-gradients "$tree/$1.safetensors"
}

# differ FILE FILE: their bytes do.
differ() {
  ! cmp -s "$1" "$2"
}

# exports_only NAME FILE: of ours, the shared object FILE exports NAME alone.
exports_only() {
  local names
  names=$(nm -D --defined-only "$2" | awk '{print $3}' | grep lockstep)
  echo "exported: $names"
  [[ $names == "$1" ]]
}

# exports_public_names FILE HEADERS: every name that the shared object FILE exports is lockstep's, and stands in one of
# HEADERS.
exports_public_names() {
  local names name
  names=$(nm -DC --defined-only "$1" | cut -d ' ' -f 3- |
    sed -E 's/^(typeinfo( name)?|vtable) for //; s/[([].*//; s/^(void |.*> )(lockstep::)/\2/' | sort -u)
  echo "$(wc -l <<<"$names") exported names"
  while read -r name; do
    [[ $name == lockstep::* ]] || return
    name=${name%%<*}
    grep -rqwF -- "${name##*::}" "$2" || return
  done <<<"$names"
}

rm -rf "$tree"
cmake --install "$build" --prefix "$installed" >/dev/null
[[ -e $installed/include/lockstep/model/layers.h && ! -e $installed/include/lockstep/kernels/spec.h ]]
build program "$@"
build plugin "$@"
launch=$installed/bin/launch trainer=$installed/bin/trainer plugin=$tree/plugin/librings.so

exports_only lockstep_plugin "$plugin"
if [[ -e $installed/lib/liblockstep.so ]]; then
  exports_public_names "$installed/lib/liblockstep.so" "$installed/include/lockstep"
  grep -F "$installed" <<<"$(ldd "$trainer")"
fi

# A network that learnt nothing has half of the points right, or 0.62 where classes differ in size.
"$launch" --nproc_per_node=2 "$tree/program/program" --batch-size 64 --lr 0.01 --epochs 5 --run-dir "$tree/circle"
learns "$tree/circle" 0.95

# Its records have its own names, and it refuses what trainer's models and data read.
grep -qE '"model": *"circle"' "$tree/circle/summary.json"
grep -qE '"dataset": *"disc"' "$tree/circle/summary.json"
grep -qx 'model = circle' "$tree/circle/config.ini"
grep -qx 'dataset = disc' "$tree/circle/config.ini"
program=$tree/program/program
for option in --model=resnet50 --model-args=foo=1 --dataset=cifar10 --data-dir=d --download --samples=5 --plugin=a.so; do
  refuses 2 "${option%%=*} is not read by this program, which has its own model and data" "$program" $option
done
"$program" --max-steps 1 --checkpoint-every 1 --eval-every 0 --run-dir "$tree/further"
"$program" --config "$tree/further/config.ini" --resume auto --max-steps 2 --run-dir "$tree/further"
refuses 2 "model 'circle' is of a program of one's own, whose runs have no trainer eval" "$trainer" eval "$tree/circle"
shows "$("$trainer" --version)" "$program" --version
shows '--config FILE' "$program" --help
(cd "$tree" && "$program" --max-steps 1 --eval-every 0 && ls -d runs/circle-disc-*)
# Without a build type both are optimised.
for project in program plugin; do
  cmake -S "$here/$project" -B "$tree/untyped_$project" -DCMAKE_PREFIX_PATH="$installed" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
  grep -qF -- ' -O3 ' "$tree/untyped_$project/compile_commands.json"
done
if [[ $* == *-fsanitize=* ]]; then
  echo "not run by mpirun: a sanitizer's dlopen does not search where the program that calls it says"
elif [[ -e $installed/lib/liblockstep_mpi.so ]]; then
  mpirun --allow-run-as-root --oversubscribe -np 2 "$tree/program/program" --backend mpi --max-steps 1 --eval-every 0 \
    --run-dir "$tree/by_mpi"
fi
"$launch" --nproc_per_node=2 trainer --plugin "$plugin" --model rings_mlp --dataset rings --batch-size 64 --lr 0.01 \
  --epochs 5 --run-dir "$tree/rings"
learns "$tree/rings" 0.9

# One's own model has its own label smoothing, unless --label-smoothing is given; a run says in config.ini which it had.
rings=("$trainer" --plugin "$plugin" --model rings_mlp --dataset rings)
first_step own "${rings[@]}"
first_step same "${rings[@]}" --label-smoothing 0.1
first_step other "${rings[@]}" --label-smoothing 0.3
first_step again "$trainer" --config "$tree/other/config.ini"
first_step none "$tree/program/program"
first_step given "$tree/program/program" --label-smoothing 0.1
cmp "$tree/own.safetensors" "$tree/same.safetensors"
cmp "$tree/other.safetensors" "$tree/again.safetensors"
differ "$tree/own.safetensors" "$tree/other.safetensors"
differ "$tree/none.safetensors" "$tree/given.safetensors"
grep -qx 'label-smoothing = 0.1' "$tree/own/config.ini"

shows 'softsign slope 2' "$trainer" plan --plugin "$plugin" --model rings_mlp --model-args slope=2 --dataset rings
shows 'rings_mlp' "$trainer" models --plugin "$plugin"
shows 'a ring of which is class 1' "$trainer" datasets --plugin "$plugin"

trains() { "$trainer" --plugin "$1" --model rings_mlp --dataset rings --max-steps 1 --run-dir "$tree/refused"; }
commit=$("$trainer" --version | grep -oE '[^(]+\)$' | tr -d ')')
refuses 2 "was built from commit 0123456789ab, this program from commit $commit" \
  trains "$tree/plugin/librings_of_another_commit.so"
refuses 2 "nowhere.so: no such file" trains "$tree/nowhere.so"
refuses 2 "run.sh: cannot be loaded" trains "$here/run.sh"
refuses 2 "it exports no lockstep_plugin" trains "$tree/plugin/libno_plugin.so"
refuses 2 "plugin 'second': model 'mlp' is built in" trains "$tree/plugin/libsecond_mlp.so"
refuses 2 "unknown model 'rings_mlp'" "$trainer" --model rings_mlp

# Two ranks with different plugins: the first line that differs names both ranks.
cp "$plugin" "$tree/librings_changed.so"
echo >>"$tree/librings_changed.so"
ln -s "$plugin" "$tree/plugin0.so"
ln -s "$tree/librings_changed.so" "$tree/plugin1.so"
refuses 2 "rank 0 has 'plugin rings sha256" "$launch" --nproc_per_node=2 bash -c \
  "exec '$trainer' --plugin '$tree'/plugin\$RANK.so --model rings_mlp --dataset rings --max-steps 1 --run-dir '$tree/different'"
