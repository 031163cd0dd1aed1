# shellcheck shell=bash
# skip REASON: this machine cannot run the test, which ends with 77, ctest's skip. With LOCKSTEP_MUST_RUN=1, as in CI, it
# fails instead, unless tests/may_skip.txt lists the reason.
skip() {
  local list
  list=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../may_skip.txt")
  if [[ ${LOCKSTEP_MUST_RUN:-} == 1 ]] && ! grep -qxF -- "$*" "$list"; then
    echo "LOCKSTEP_MUST_RUN=1, but skipped: $*" >&2
    exit 1
  fi
  echo "skipped: $*" >&2
  exit 77
}
