# Sourced by ./run, ./test and ./bench: the packages, the configuration and the build they share.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
logs=$root/build/logs
mkdir -p "$logs"

readonly build_packages=(
  clang-16 clang-tidy-16 clang-format-16 libclang-rt-16-dev llvm-16 ninja-build cmake ccache mold
  libboost1.81-dev libboost-json1.81-dev libboost-url1.81-dev libseccomp-dev libcap-dev libmnl-dev
  libnftables-dev libarchive-dev libsqlite3-dev libyaml-cpp-dev libcli11-dev)
# What boxes show of this host, and what fetches the rest.
readonly run_packages=(python3 python3-pip python3-venv)
readonly test_packages=(
  libgtest-dev libgmock-dev "${run_packages[@]}" python3-pytest bubblewrap iproute2 nftables strace
  git gcc tmux fish zsh e2fsprogs btrfs-progs libdevmapper1.02.1)

# One clear line, then the end.
die() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# Of the packages named, those that are not installed.
missing_packages() {
  local installed
  # An unknown package makes dpkg-query fail and is simply not in its answer.
  installed=$({ dpkg-query -W -f '${db:Status-Status}:${Package}\n' "$@" 2>/dev/null || true; } |
    sed -n 's/^installed://p' | tr '\n' ' ')
  local package
  for package in "$@"; do
    [[ " $installed" == *" $package "* ]] || echo "$package"
  done
}

# ensure_packages build|run|test|bench: installs what is missing, and does nothing at all when nothing is.
ensure_packages() {
  local wanted=("${build_packages[@]}")
  if [[ $1 == run ]]; then wanted+=("${run_packages[@]}"); fi
  if [[ $1 == test ]]; then
    wanted+=("${test_packages[@]}")
    command -v node >/dev/null || wanted+=(nodejs)
    command -v npm >/dev/null || wanted+=(npm)
    command -v java >/dev/null || wanted+=(default-jdk-headless)
  fi
  if [[ $1 == bench ]]; then wanted+=(bubblewrap); fi # the peer of every figure about whole boxes
  command -v dpkg-query >/dev/null ||
    die "packages are looked for with dpkg; on this system install the likes of: ${wanted[*]}"
  local missing
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  ((${#missing[@]} > 0)) || return 0

  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "packages are missing; as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  echo "Installing ${missing[*]}" >&2
  local log=$logs/packages.log
  if ! { "${as_root[@]}" apt-get update &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    die "the packages could not be installed: apt-get install ${missing[*]} (log: $log)"
  fi
}

# A second checkout of the same sources finds the first one's results.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=true

# Compilers at work at once: one a core, and 1.5 GB of memory for each.
build_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable:/ { print int($2 / 1500000) }' /proc/meminfo)
  ((memory < cores)) && cores=$memory
  ((cores > 0)) || cores=1
  echo "$cores"
}

cached() { # cached PRESET VARIABLE: its value in the configuration of the preset
  sed -n "s/^$2:[A-Z]*=//p" "$root/build/$1/CMakeCache.txt" 2>/dev/null || true
}

# configure PRESET ON|OFF: with or without the tests. Does nothing when it is so already; later changes
# of the CMake files are the build's own affair.
configure() {
  local preset=$1 tests=$2
  if [[ -f $root/build/$preset/build.ninja && $(cached "$preset" CAISSON_TESTS) == "$tests" ]]; then
    return 0
  fi
  (cd "$root" && cmake --preset "$preset" -DCAISSON_TESTS="$tests")
}

# build PRESET [TARGET...]
build() {
  local command=(cmake --build --preset "$1" --parallel "$(build_jobs)")
  shift
  (($# == 0)) || command+=(--target "$@")
  (cd "$root" && "${command[@]}")
}

# quietly LOG COMMAND...: on a terminal the command shows its own progress; elsewhere it is silent. When
# it fails, the end of the log and one line.
quietly() {
  local log=$logs/$1.log
  shift
  local status=0
  if [[ -t 1 ]]; then
    "$@" || status=$?
  else
    "$@" >"$log" 2>&1 || status=$?
    ((status == 0)) || tail -n 40 "$log" >&2
  fi
  ((status == 0)) || die "failed: $*"
}
