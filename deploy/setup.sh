# shellcheck shell=bash
# What deploy/quickstart and deploy/test share: packages, configuring, building. Sourced from the repository root.

say() { printf '\n==> %s\n' "$*"; }

# fail CODE WORDS...: one line to stderr, then the end.
fail() {
  printf '%s: %s\n' "${0##*/}" "${*:2}" >&2
  exit "$1"
}

# usage: the comment at the head of the calling script, from line 2 on.
usage() {
  local script=$0
  [[ -f $script ]] || script=$OLDPWD/$0  # a relative name, and the script has changed to the root
  sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$script"
}

# with_progress LOG COMMAND...: runs COMMAND with its output in LOG and shows its newest line: on a terminal in
# place, elsewhere every ten seconds. When it fails, shows the end of LOG.
with_progress() {
  local log=$1 start=$SECONDS shown=$SECONDS pid status=0
  shift
  mkdir -p "${log%/*}"
  (trap - INT && exec "$@") >"$log" 2>&1 </dev/null &  # ^C would pass it by
  pid=$!
  while grep -qx "$pid" <<<"$(jobs -pr)"; do  # kill -0 is refused where it is root's, by sudo
    if [[ -t 1 ]]; then
      printf '\r\033[K    %3d s  %.80s' $((SECONDS - start)) "$(tail -n 1 "$log")"
    elif ((SECONDS - shown >= 10)); then
      shown=$SECONDS
      printf '    %3d s  %.100s\n' $((SECONDS - start)) "$(tail -n 1 "$log")"
    fi
    sleep 0.2
  done
  wait "$pid" || status=$?
  [[ -t 1 ]] && printf '\r\033[K'
  if ((status != 0)); then
    tail -n 40 "$log" >&2
    fail 1 "failed: $* (whole output: $log)"
  fi
  printf '    done in %d s\n' $((SECONDS - start))
}

# has_gpus [VERSION-FILE [DEV]]: a driver is loaded, and this machine or container was given device files of GPUs.
has_gpus() {
  [[ -e ${1:-/proc/driver/nvidia/version} ]] || command -v nvidia-smi >/dev/null || return
  compgen -G "${2:-/dev}/nvidia[0-9]*" >/dev/null
}

# old_driver [VERSION-FILE]: the version of this machine's driver, where it is too old for CUDA 13; else fails.
old_driver() {
  local version
  version=$(sed -nE '/^NVRM version/s/.* ([0-9]{3,})\.[0-9.]+ .*/\1/p' "${1:-/proc/driver/nvidia/version}" 2>/dev/null) || return
  [[ -n $version ]] && ((version < 580)) && echo "$version"
}

# has_cudnn: cuDNN is on this machine, or was fetched by deploy/cuda-toolkit.
has_cudnn() {
  [[ $(ldconfig -p 2>/dev/null) == *libcudnn.so* ]] || compgen -G "${CUDA_HOME:-/usr/local/cuda}/lib*/libcudnn.so*" >/dev/null ||
    compgen -G "build/cuda-toolkit/lib/libcudnn.so*" >/dev/null
}

# why_no_gpu TRAINER: what keeps a program built with CUDA from the GPU; fails when nothing does.
why_no_gpu() {
  local said
  said=$("$1" devices 2>&1) || true
  ! grep -q '^gpu of this rank:' <<<"$said" || return 1
  grep -E '^(device|cuda):|error:' <<<"$said" | head -n 1 || true
}

missing_packages() {
  local package
  while read -r package; do
    # A line for each architecture.
    grep -qx installed <<<"$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null)" || echo "$package"
  done < <(grep -vE '^(#|$)' deploy/packages/debian.txt)
}

# provide_packages yes|no: installs what deploy/packages/debian.txt lists and the machine lacks; with "no" lists it.
provide_packages() {
  local as_root=() missing
  if ! command -v dpkg-query >/dev/null; then
    [[ $1 == no ]] || fail 2 "packages are installed with apt-get, which is not here: install what" \
      "deploy/packages/debian.txt lists in your system's way, then use --no-install"
    return
  fi
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]} > 0)) || return 0
  ((EUID == 0)) || as_root=(sudo)
  if [[ $1 == no ]]; then
    fail 2 "missing packages: ${missing[*]} (apt-get install ${missing[*]})"
  fi
  if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    fail 2 "neither root nor sudo; as root: apt-get install ${missing[*]}"
  fi
  say "Installing ${#missing[@]} packages that the build needs: ${missing[*]}"
  if ((EUID != 0)); then sudo true; fi  # asks for the password, where there is one, before output goes to a log
  with_progress build/logs/apt-update.log "${as_root[@]}" apt-get update
  with_progress build/logs/apt-install.log "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}"
}

# build PRESET TARGET...: configures build/PRESET if that is not done yet and builds the targets.
build() {
  local preset=$1 cache=build/$1/CMakeCache.txt fresh=()
  shift
  if ! grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$cache" || [[ ! -e build/$preset/build.ninja ]]; then
    [[ ! -e $cache ]] || fresh=(--fresh)  # made for another folder, or half made
    say "Configuring build/$preset"
    with_progress "build/logs/configure-$preset.log" cmake --preset "$preset" "${fresh[@]}"
  fi
  say "Building build/$preset: $*"
  with_progress "build/logs/build-$preset-$1.log" cmake --build --preset "$preset" -j "$(nproc)" --target "$@"
}
