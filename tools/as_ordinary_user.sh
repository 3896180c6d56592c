#!/usr/bin/env bash
# as_ordinary_user.sh [--delegate] PROGRAM ARGS...
#
# Runs a test program as an ordinary user (uid and gid 65534, no groups, a clean environment), with
# --delegate inside control groups that belong to that user. Started by root; exits 77, which ctest takes
# as skipped, when the user cannot reach the program or no control group can be delegated.
set -euo pipefail
user=65534
delegate=no
if [[ $1 == --delegate ]]; then
  delegate=yes
  shift
fi
if [[ $(id -u) != 0 ]]; then
  [[ $delegate == no ]] || { echo "skipped: only root can delegate control groups"; exit 77; }
  exec "$@"
fi
as_user=(setpriv --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all)
if ! "${as_user[@]}" test -x "$1"; then
  echo "skipped: uid $user cannot reach $1; run the tests from a directory it can enter"
  exit 77
fi

home=$(mktemp -d)
chown "$user:$user" "$home"
delegated=()
clean_up() {
  rm -rf "$home"
  for directory in "${delegated[@]}"; do
    echo $$ >"$(dirname "$directory")/cgroup.procs" 2>/dev/null || true
    rmdir "$directory" 2>/dev/null || true
  done
}
trap clean_up EXIT

# The cgroup of this process in the hierarchy of a controller ("" is the unified one).
own_cgroup() {
  awk -F: -v want="$1" '{ n = split($2, names, ","); if (n == 0 && want == "") print $3
    for (i = 1; i <= n; i++) if (names[i] == want) print $3 }' /proc/self/cgroup
}
delegate_below() {
  local directory="$1/caisson-delegated-$$"
  mkdir "$directory"
  delegated+=("$directory")
  chown -R "$user:$user" "$directory"
  echo $$ >"$directory/cgroup.procs"
}
if [[ $delegate == yes ]]; then
  if [[ ! -d /sys/fs/cgroup/memory ]]; then
    echo "skipped: this host's control groups are not of version 1 or hybrid"
    exit 77
  fi
  for controller in memory pids cpu; do
    delegate_below "/sys/fs/cgroup/$controller$(own_cgroup "$controller")"
  done
  [[ ! -d /sys/fs/cgroup/unified ]] || delegate_below "/sys/fs/cgroup/unified$(own_cgroup "")"
fi

"${as_user[@]}" env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$home" XDG_RUNTIME_DIR="$home" \
  TMPDIR="$home" "$@"
