# shellcheck shell=bash disable=SC2154
# What the cluster's scripts share: starting ranks in every way, and reading what they leave. Sourced; wants $bin, the folder
# of launch and trainer, and $scratch, where runs and logs go.

fail() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# open_scratch: a folder that goes away at the end, with every process that this script left running.
open_scratch() {
  scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-cluster.XXXXXX")
  trap 'end_ranks; rm -rf "$scratch"' EXIT
}

end_ranks() {
  local pids
  mapfile -t pids < <(jobs -p)
  ((${#pids[@]} == 0)) || kill -KILL "${pids[@]}" 2>/dev/null || true
}

# figure RUN NAME: a top-level value of RUN/summary.json; where there is none, what equals no figure of another run.
figure() {
  sed -nE "s/^ *\"$2\": *\"?([^\",]+)\"?,?$/\1/p" "$scratch/$1/summary.json" | grep . || echo "no $2 of $1"
}

unused_port() { python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

milliseconds() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }

# on_both_hosts NAME RANKS COMMAND...: COMMAND under two launches, RANKS ranks on each host; the logs are NAME.hostA and
# NAME.hostB in $scratch. Ends as the worse of the two.
on_both_hosts() {
  local name=$1 ranks=$2 code=0
  shift 2
  start_launch "$name" hostA 0 "$ranks" "$@"
  local first=$!
  start_launch "$name" hostB 1 "$ranks" "$@"
  wait $! || code=$?
  wait "$first" || code=$?
  return "$code"
}

# start_launch NAME HOST NODE_RANK RANKS COMMAND...: launch of one of two nodes, in the background. With this_machine set both
# nodes are this machine, and master_port one that is unused there; hosts have ports of their own.
start_launch() {
  local log=$scratch/$1.$2 host=$2 node=$3 ranks=$4
  local place=(on_host "$host")
  [[ -z ${this_machine:-} ]] || place=(env)
  shift 4
  timeout --kill-after=5 120 "${place[@]}" "$bin/launch" --nnodes=2 --nproc_per_node="$ranks" --node_rank="$node" \
    --master_addr="${master_addr:-10.77.0.1}" --master_port="${master_port:-29500}" "$@" >"$log" 2>&1 &
}

# mpirun_here WORDS...: Open MPI as it starts in a container, as root, on fewer cores than ranks.
mpirun_here() {
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none \
    "${from[@]:-env}" mpirun --oversubscribe --bind-to none "$@"
}

# mpirun_on_hosts WORDS...: the same from hostA, with hostA and hostB to be named by -H.
mpirun_on_hosts() {
  local from=(on_host hostA)
  mpirun_here --mca plm_rsh_agent remote_shell "$@"
}
