#!/usr/bin/env bash
# vm_test.sh [--build DIRECTORY] [--kernel PACKAGE] [--minutes N] [STAGE...]
#
# Runs the tests of the native backend in a virtual machine: on Debian's 6.1 kernel, where control groups
# are of version 2 alone and root is not restricted by a container. A developer's machine often has a
# newer kernel and other control groups, so this is how the paths for such hosts are proven. It is no
# part of ./test, because everything is some twenty times slower under emulation.
#
#   --build DIRECTORY   takes the programs of that build as they are, instead of building build/release
#   --kernel PACKAGE    a Debian package of a kernel with NVMe, ext4 and the 8250 serial console built in
#                       (what linux-image-cloud-amd64 stands for now)
#   --minutes N         the machine is ended after that time (14)
#   STAGE...            which stages to run, by glob (all); `--list` shows them
#
# What it does: builds the tests, downloads the kernel and busybox with apt-get download, puts the tests
# and the programs they run into an ext4 image below build/vm, boots that in QEMU without KVM (one
# processor, 1500 MB) and prints one line a stage. The machine has no way to the network but an interface
# that leads nowhere. build/vm/console.log is all that was said. Needs no root, unless QEMU is still to
# be installed. Takes ten to fourteen minutes. Exits 0 when every stage passed, 1 when one did not or
# something is missing here, 2 when the machine did not come up.
#
# This same file is process 1 of the machine: see `inside`.
set -euo pipefail

# The stages: name, seconds, where it runs, the program with its arguments. Places are functions below.
stages() {
  cat <<'STAGES'
doctor          60  root_cgroup  caisson doctor
unit            120 root_cgroup  backend_native_test --gtest_filter=-ToolsTest.*
contract        180 root_cgroup  contract_test --gtest_filter=*native*
security        420 root_cgroup  security_test --gtest_filter=-*I12*:*NetworkOn*
network         90  root_cgroup  security_test --gtest_filter=*I12*:*NetworkOn*
faults          120 root_cgroup  faults_test
image           60  root_cgroup  run_image
service         180 own_cgroup   security_test --gtest_filter=*I15LimitsHold*:*I15ABox*:*I18*
service-faults  120 own_cgroup   faults_test
login           180 crowded      security_test --gtest_filter=*I15LimitsHold*:*I15ABox*:*I18*
user            300 user         security_test
user-image      60  user         run_image
user-delegated  240 delegated    security_test --gtest_filter=*I15*:*I18*
STAGES
}
readonly programs=(backend_native_test contract_test security_test faults_test caisson)

### In the machine ###################################################################################

readonly cgroups=/sys/fs/cgroup ordinary=65534

root_cgroup() { "$@"; }

# Enters the cgroup and becomes the command.
enter_and_run() {
  echo "$BASHPID" >"$1/cgroup.procs"
  shift
  exec "$@"
}

# As a service of systemd has it: a cgroup two levels down, with nobody else in it.
own_cgroup() {
  local service=$cgroups/system.slice/test.service
  mkdir -p "$service"
  echo '+memory +pids +cpu' >"$cgroups/cgroup.subtree_control"
  echo '+memory +pids +cpu' >"$cgroups/system.slice/cgroup.subtree_control"
  (enter_and_run "$service" "$@")
}

# As root's login shell has it: another process lives in the same cgroup.
crowded() {
  local session=$cgroups/session.scope
  mkdir -p "$session"
  (enter_and_run "$session" sleep 1000) &
  local neighbour=$! status=0
  (enter_and_run "$session" "$@") || status=$?
  kill "$neighbour"
  return "$status"
}

# The command may be a function of this file.
as_user() {
  local home=/home/user
  mkdir -p "$home"
  chown "$ordinary:$ordinary" "$home"
  ! declare -F "$1" >/dev/null || set -- "$BASH" /init "$@"
  exec setpriv --reuid "$ordinary" --regid "$ordinary" --clear-groups --inh-caps=-all \
    env -i PATH=/usr/bin GTEST_COLOR=no HOME="$home" XDG_RUNTIME_DIR="$home" TMPDIR="$home" "$@"
}

user() { (as_user "$@"); }

# As systemd-run --user --scope -p Delegate=yes makes it.
delegated() {
  local scope=$cgroups/user.slice/test.scope file
  mkdir -p "$scope"
  for file in "$cgroups" "$cgroups/user.slice"; do
    echo '+memory +pids +cpu' >"$file/cgroup.subtree_control"
  done
  for file in . cgroup.procs cgroup.threads cgroup.subtree_control; do
    chown "$ordinary:$ordinary" "$scope/$file"
  done
  (
    echo "$BASHPID" >"$scope/cgroup.procs"
    as_user "$@"
  )
}

# A root file system that is not the host's, read-only and writable.
run_image() {
  local tree=/tmp/image-$EUID
  mkdir -p "$tree/bin"
  cp /usr/bin/busybox "$tree/bin/sh"
  caisson image import busybox "$tree"
  local without="memory_limit,pids_limit,cpu_limit"  # an ordinary user has none of them
  local exec=(caisson exec --quiet --allow-missing "$without" --image busybox)
  "${exec[@]}" -- sh -c 'echo read-only; if echo text >/made; then exit 1; fi; echo text >/tmp/made'
  "${exec[@]}" --writable -- sh -c 'echo writable; echo text >/made; echo text >/bin/made'
  "${exec[@]}" --mount "$tree:/some/where:ro" -- sh -c 'echo mounted; test -x /some/where/bin/sh'
}

# What a stage may not leave behind: nothing of boxes outlives them.
leftovers() {
  find "$cgroups" -mindepth 1 -name 'caisson-*' -printf 'left behind: cgroup %P\n'
  find /sys/class/net -name 'cs*' -printf 'left behind: interface %f\n'
  sed -n 's/.* \([^ ]*caisson[^ ]*\) .*/left behind: mount \1/p' /proc/mounts
}

prepare_machine() {
  # The image's files belong to whoever made it.
  [[ $(stat -c %u /usr) == 0 ]] || chown -R 0:0 /usr /etc /root
  mount -t proc proc /proc
  mount -t sysfs sysfs /sys
  mount -t devtmpfs devtmpfs /dev
  mkdir -p /dev/pts /dev/shm
  mount -t devpts -o ptmxmode=666 devpts /dev/pts
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
  mount -t tmpfs -o mode=755 tmpfs /run
  mount -t cgroup2 cgroup2 "$cgroups"
  ln -s /proc/self/fd /dev/fd
  modprobe virtio_pci
  modprobe virtio_net
  ip link set lo up
  ip link set eth0 up
  ip address add 10.0.2.15/24 dev eth0
  ip route add default via 10.0.2.2
}

run_stage() { # run_stage NAME SECONDS PLACE COMMAND...
  local name=$1 limit=$2 place=$3 status=0 start=$SECONDS
  shift 3
  echo "== begin $name"
  # The place is a function of this file, and timeout wants a program.
  timeout --foreground --kill-after=5 "$limit" "$BASH" /init "$place" "$@" </dev/null || status=$?
  leftovers >/run/leftovers
  [[ ! -s /run/leftovers ]] || { cat /run/leftovers; status=1; }
  echo "== end $name $status $((SECONDS - start))"
}

inside() {
  export PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C GTEST_COLOR=no NO_COLOR=1
  export CAISSON_TEST_BOXES=200 CAISSON_TEST_KILLS=40 CAISSON_TEST_CALLERS=10
  prepare_machine
  echo "== kernel $(uname -r)"
  local stage
  while read -r -a stage <&3; do
    run_stage "${stage[@]}"
  done 3</stages
  sync
  poweroff -f
}

if (($$ == 1)); then
  inside
  exit
elif [[ $0 == /init ]]; then
  "$@"
  exit
fi

### Outside ##########################################################################################

# shellcheck source=tools/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
directory=$root/build/vm
build_directory=
kernel_package=
minutes=14
wanted=()
while (($# > 0)); do
  case $1 in
    --build) build_directory=$(realpath "$2"); shift ;;
    --kernel) kernel_package=$2; shift ;;
    --minutes) minutes=$2; shift ;;
    --list) stages; exit ;;
    -*) die "unknown option $1" ;;
    *) wanted+=("$1") ;;
  esac
  shift
done

selected_stages() {
  local line pattern
  while read -r line; do
    ((${#wanted[@]} > 0)) || echo "$line"
    for pattern in "${wanted[@]}"; do
      # shellcheck disable=SC2053  # the pattern is one
      [[ ${line%% *} != $pattern ]] || echo "$line"
    done
  done < <(stages)
}

ensure_emulator() {
  local missing
  mapfile -t missing < <(missing_packages qemu-system-x86 e2fsprogs)
  ((${#missing[@]} > 0)) || return 0
  ((EUID == 0)) || die "packages are missing; as root: apt-get install ${missing[*]}"
  echo "Installing ${missing[*]}" >&2
  quietly vm-packages apt-get update
  quietly vm-packages env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    "${missing[@]}"
}

build_programs() {
  ensure_packages test
  configure release ON
  build release "${programs[@]}" caisson-payload
}

# unpack PACKAGE: downloads it once and unpacks it to build/vm/packages/PACKAGE.
unpack() {
  local target=$directory/packages/$1
  [[ ! -d $target ]] || return 0
  local download=$directory/download
  rm -rf "$download"
  mkdir -p "$download" "$directory/packages"
  (cd "$download" && apt-get download -q "$1") >"$logs/vm-download.log" 2>&1 ||
    die "apt-get cannot download $1 (log: $logs/vm-download.log)"
  dpkg -x "$download"/*.deb "$target.new"
  mv "$target.new" "$target"
}

current_kernel_package() {
  apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p'
}

# The daemon's place is a setting of the build; all others lie in the build directory.
find_program() {
  local output
  output=$(sed -n 's/^CAISSON_OUTPUT_DIR:[A-Z]*=//p' "$build_directory/CMakeCache.txt")
  if [[ $1 == caisson && -n $output ]]; then
    echo "$output/caisson"
  else
    find "$build_directory" -type f -name "$1" -perm -u+x -print -quit
  fi
}

# The programs that tests run in boxes or this file runs in the machine, with the libraries of them all.
copy_programs() {
  local tree=$1 name path files=() payload
  mapfile -t files < <(dpkg -L bash dash coreutils util-linux findutils grep sed mawk |
    grep -E '^(/usr)?/s?bin/.' | sort -u)
  tar -C / -c --no-recursion "${files[@]/#/.}" 2>/dev/null | tar -C "$tree" -x --keep-directory-symlink
  ln -sf dash "$tree/usr/bin/sh"
  ln -sf mawk "$tree/usr/bin/awk"
  for name in "${programs[@]}"; do
    path=$(find_program "$name")
    [[ -n $path ]] || die "$build_directory has no program $name"
    strip --strip-debug -o "$tree/usr/bin/$name" "$path"
    files+=("$path")
  done
  # The tests have the path of the payload compiled in.
  payload=$(find_program caisson-payload)
  mkdir -p "$tree$(dirname "$payload")"
  cp "$payload" "$tree$payload"
  # ldd fails for scripts and static programs.
  { ldd "${files[@]}" 2>/dev/null || true; } |
    sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^\t\(\/[^ ]*\) (.*/\1/p' | sort -u |
    while read -r path; do
      mkdir -p "$tree$(dirname "$path")"
      cp -L "$path" "$tree$path"
    done
  /sbin/ldconfig -r "$tree"
}

copy_kernel() {
  local tree=$1 unpacked=$directory/packages/$kernel_package version
  version=$(basename "$unpacked"/lib/modules/*)
  mkdir -p "$tree/usr/lib/modules"
  cp -r "$unpacked/lib/modules/$version" "$tree/usr/lib/modules/"
  # Of no use here, and most of the bytes.
  rm -rf "$tree/usr/lib/modules/$version"/kernel/{drivers/{infiniband,gpu,scsi,hid,md,target,usb,nvme},fs/{xfs,btrfs}}
  "$busybox" depmod -b "$tree" "$version"
  cp "$unpacked/boot/vmlinuz-$version" "$directory/vmlinuz"
}

make_tree() {
  local tree=$1 name
  mkdir -p "$tree"/{usr/{bin,sbin,lib,lib64},etc/ssl/certs,proc,sys,dev,run,root,home,tmp,var}
  chmod 1777 "$tree/tmp"
  for name in bin sbin lib lib64; do ln -s "usr/$name" "$tree/$name"; done
  copy_programs "$tree"
  cp "$busybox" "$tree/usr/bin/busybox"
  for name in mount modprobe ip poweroff; do ln -sf ../bin/busybox "$tree/usr/sbin/$name"; done
  copy_kernel "$tree"
  echo 'root:x:0:0:root:/root:/bin/sh' >"$tree/etc/passwd"
  echo 'nobody:x:65534:65534:nobody:/nonexistent:/bin/sh' >>"$tree/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$tree/etc/group"
  echo '127.0.0.1 localhost' >"$tree/etc/hosts"
  echo 'nameserver 10.0.2.3' >"$tree/etc/resolv.conf"
  cp /etc/os-release "$tree/etc/os-release"
  install -m 755 "${BASH_SOURCE[0]}" "$tree/init"
  selected_stages >"$tree/stages"
}

make_image() {
  local tree=$directory/tree image=$directory/root.ext4
  rm -rf "$tree" "$image"
  make_tree "$tree"
  local megabytes=$(($(du -sm "$tree" | cut -f 1) + 400))
  # The journal would be written for nothing.
  mke2fs -q -F -t ext4 -O ^has_journal -d "$tree" "$image" "${megabytes}M" >/dev/null
  rm -rf "$tree"
}

# la57 and the mitigations only make emulation slower. panic=-1 with -no-reboot ends QEMU with the machine.
run_machine() {
  timeout --kill-after=10 $((minutes * 60)) qemu-system-x86_64 \
    -machine q35,accel=tcg -cpu max,la57=off -smp 1 -m 1500 -display none -monitor none -no-reboot \
    -kernel "$directory/vmlinuz" \
    -append "root=/dev/nvme0n1 rw init=/init console=ttyS0 loglevel=1 panic=-1 mitigations=off" \
    -drive "file=$directory/root.ext4,format=raw,if=none,id=disk,cache=unsafe" \
    -device nvme,drive=disk,serial=root \
    -nic user,model=virtio-net-pci,restrict=on \
    -serial "file:$directory/console.log" </dev/null
}

# One line for each stage that was to run, from what the machine said.
summarise() {
  tr -d '\r' <"$directory/console.log" | awk -v expected="$(selected_stages)" '
    /^== kernel / { printf "%-16s %s\n", "kernel", $3 }
    /^== begin / { name = $3 }
    / SKIPPED +\] [0-9]+ test/ { skipped[name] = $0; gsub(/[^0-9]/, "", skipped[name]) }
    / PASSED +\] [0-9]+ test/ { passed[name] = $0; gsub(/[^0-9]/, "", passed[name]) }
    /^left behind: / { failed[name] = failed[name] "\n    " $0 }
    /^\[  FAILED  \] [^ ]+$/ { failed[name] = failed[name] "\n    failed: " $4 }
    /^== end / { status[$3] = $4; seconds[$3] = $5 }
    END {
      bad = 0
      count = split(expected, lines, "\n")
      for (i = 1; i <= count; ++i) {
        split(lines[i], words, " ")
        stage = words[1]
        verdict = !(stage in status) ? "not run" : status[stage] == 124 ? "timed out" : \
          status[stage] != 0 ? "FAILED (" status[stage] ")" : "ok"
        # Where no box can be made, tests skip themselves.
        if (verdict == "ok" && words[4] ~ /_test$/ && passed[stage] == 0) verdict = "all skipped"
        if (verdict != "ok") bad = 1
        printf "%-16s %-12s %4d s  %d passed, %d skipped%s\n", stage, verdict, seconds[stage],
          passed[stage], skipped[stage], failed[stage]
      }
      exit bad
    }'
}

ensure_emulator
kernel_package=${kernel_package:-$(current_kernel_package)}
[[ -n $kernel_package ]] ||
  die "there is no package linux-image-cloud-amd64: run apt-get update, or name one with --kernel"
mkdir -p "$directory"
if [[ -z $build_directory ]]; then
  build_directory=$root/build/release
  quietly vm-build build_programs
fi
unpack busybox-static
unpack "$kernel_package"
busybox=$directory/packages/busybox-static/bin/busybox
make_image
: >"$directory/console.log"
echo "The machine runs for at most $minutes minutes; to watch it: tail -f build/vm/console.log" >&2
status=0
run_machine || status=$?
((status == 0)) || echo "the machine did not end by itself (status $status)" >&2
grep -q '^== begin' "$directory/console.log" || {
  tail -n 20 "$directory/console.log" >&2
  echo "the machine did not come up; build/vm/console.log has all it said" >&2
  exit 2
}
summarise
