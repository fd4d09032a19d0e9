#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Boots a machine with several NUMA nodes in QEMU's software emulation and runs the guest tests on it:
#
#   boot.sh <two_nodes|four_nodes|odd_nodes> <test program> <folder for what is made> [argument of init.sh]...
#
# The guest is Debian's cloud kernel and an initramfs with busybox, init.sh, the program and its shared libraries.  init.sh runs the tests and
# says the verdict on the serial console.  The kernel is downloaded as a package and unpacked, once, into <folder>/kernel; nothing of it is
# installed.
#
# Exit status: 0 the verdict is good; 77 skipped, for the reason printed (no emulator, no kernel); else failed.
# A guest that does not come up in GUEST_BOOT_TIMEOUT seconds (90; it takes 3 to 20) is started again, twice: the emulator's boots hang now
# and then, on a loaded machine, with nothing on the console. That says nothing of Weft, of which nothing has run by then.
# Environment: GUEST_TIMEOUT, seconds for each start (500); GUEST_BOOT_TIMEOUT.
set -uo pipefail

machine=$1
program=$2
folder=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
name=$machine
timeout_s=${GUEST_TIMEOUT:-500}
boot_timeout_s=${GUEST_BOOT_TIMEOUT:-90}

skip() {
  echo "skipped: $*"
  exit 77
}

fail() {
  echo "FAILED: $*"
  exit 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo --non-interactive "$@"; fi
}

# The package that the metapackage depends on.
kernel_package() {
  apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1
}

# Into <folder>/kernel/vmlinuz, which appears only when it is complete.
fetch_kernel() {
  local package scratch
  package=$(kernel_package)
  if [ -z "$package" ]; then
    as_root apt-get update --quiet
    package=$(kernel_package)
  fi
  [ -n "$package" ] || return 1
  rm -rf "$folder/kernel" "$folder/kernel.part"
  scratch="$folder/kernel.part"
  mkdir -p "$scratch"
  (
    cd "$scratch" || exit 1
    # The server has replaced a package since the lists were read: read them again.
    apt-get download "$package" || { as_root apt-get update --quiet && apt-get download "$(kernel_package)"; } || exit 1
    dpkg-deb --extract ./*.deb unpacked && mv unpacked/boot/vmlinuz-* vmlinuz && rm -rf unpacked ./*.deb
  ) || return 1
  mv "$scratch" "$folder/kernel"
}

# The program with its libraries, at the paths where its loader searches.
make_initramfs() {
  local root="$folder/$name.root" library
  rm -rf "$root"
  mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/tmp"
  cp "$(command -v busybox)" "$root/bin/busybox"
  ln -s busybox "$root/bin/sh"
  install -m 755 "$here/init.sh" "$root/init"
  strip -o "$root/bin/guest_tests" "$program" || cp "$program" "$root/bin/guest_tests"
  for library in $(ldd "$program" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p'); do
    mkdir -p "$root$(dirname "$library")"
    cp --dereference "$library" "$root$library" || return 1
  done
  (cd "$root" && find . | busybox cpio -o -H newc) >"$folder/$name.initramfs" 2>/dev/null
  rm -rf "$root"
  [ -s "$folder/$name.initramfs" ]
}

# node_arguments <MiB per node> <CPUs per node> <distances to the nodes that follow, one word for each node>
# e.g. "16,22,28 22,16 16 ''": from 0 to 1, 2, 3; from 1 to 2, 3; from 2 to 3.
node_arguments() {
  local memory=$1 cpus=$2 node=0 distance_list to distance
  local -a distances=()  # They come last: both nodes must be known.
  shift 2
  for distance_list in "$@" ""; do
    arguments+=(-object "memory-backend-ram,id=ram$node,size=${memory}M"
      -numa "node,nodeid=$node,cpus=$((node * cpus))-$(((node + 1) * cpus - 1)),memdev=ram$node")
    to=$((node + 1))
    for distance in ${distance_list//,/ }; do
      distances+=(-numa "dist,src=$node,dst=$to,val=$distance")
      to=$((to + 1))
    done
    node=$((node + 1))
  done
  arguments+=("${distances[@]}")
}

arguments=()
case "$machine" in
  two_nodes)
    arguments+=(-m 768 -smp "8,sockets=2,cores=4,threads=1")
    node_arguments 384 4 "21"
    expected="0-3:10,21 4-7:21,10"
    ;;
  four_nodes)  # Two sockets with two nodes each; each node has one neighbour that is near, one far, one farther.
    arguments+=(-m 1024 -smp "8,sockets=2,cores=4,threads=1")
    node_arguments 256 2 "16,22,28" "28,22" "16"
    expected="0-1:10,16,22,28 2-3:16,10,28,22 4-5:22,28,10,16 6-7:28,22,16,10"
    ;;
  odd_nodes)  # Node 2 has no memory, node 3 no CPU (the kernel numbers those last). Other tests than on the machines above.
    arguments+=(-m 768 -smp "8,sockets=2,cores=4,threads=1")
    for node in 0 1 3; do arguments+=(-object "memory-backend-ram,id=ram$node,size=256M"); done
    arguments+=(-numa "node,nodeid=0,cpus=0-3,memdev=ram0" -numa "node,nodeid=1,cpus=4-5,memdev=ram1"
      -numa "node,nodeid=2,cpus=6-7" -numa "node,nodeid=3,memdev=ram3")
    for pair in 0,1,21 0,2,21 0,3,17 1,2,12 1,3,28 2,3,28; do
      IFS=, read -r from to distance <<<"$pair"
      arguments+=(-numa "dist,src=$from,dst=$to,val=$distance")
    done
    expected="0-3:10,21,21,17 4-5:21,10,12,28 6-7:21,12,10,28 :17,28,28,10"
    [ $# -gt 0 ] || set -- "GuestOddNodes.*"
    ;;
  *) fail "no machine is called \"$machine\"" ;;
esac

command -v qemu-system-x86_64 >/dev/null || skip "qemu-system-x86_64 is not installed (package qemu-system-x86)"
command -v busybox >/dev/null || skip "busybox is not installed (package busybox-static)"
ldd "$(command -v busybox)" >/dev/null 2>&1 && skip "this busybox is not a static one (package busybox-static)"
mkdir -p "$folder"
exec 9>"$folder/kernel.lock"
flock 9  # Two tests may come at a time.
if [ ! -s "$folder/kernel/vmlinuz" ]; then
  fetch_kernel >"$folder/kernel.log" 2>&1 || skip "no kernel: package linux-image-cloud-amd64 cannot be downloaded: $(tail -n 1 "$folder/kernel.log")"
fi
exec 9>&-

make_initramfs || fail "no initramfs"
console="$folder/$name.console"
started=$SECONDS
# The kernel's parameters: "quiet" keeps its messages out of ours, panic=-1 with -no-reboot ends QEMU.  tsc=reliable: else the clock is the
# HPET, whose reads go through one lock of the emulator, and the guest is 20 times slower.  What follows "--" is for init.
boot() {
  exec timeout --foreground --kill-after=5 "$timeout_s" qemu-system-x86_64 -nodefaults -no-user-config -display none -serial stdio -no-reboot \
    -accel tcg,thread=multi -cpu max "${arguments[@]}" -kernel "$folder/kernel/vmlinuz" -initrd "$folder/$name.initramfs" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable -- ${expected// /;} $*" </dev/null >"$console" 2>&1
}

# came_up <process>: the guest is up, or has ended.
came_up() {
  local until=$((SECONDS + boot_timeout_s))
  while ! grep -q '^guest: up' "$console" && kill -0 "$1" 2>/dev/null; do
    [ "$SECONDS" -lt "$until" ] || return 1
    sleep 1
  done
}

for start in 1 2 3; do
  : >"$console"
  (boot "$@") &
  emulator=$!
  came_up "$emulator" && break
  echo "start $start: the guest did not come up within $boot_timeout_s s; on its console: $(tr -d '\r' <"$console" | tail -n 3)"
  kill "$emulator"  # The timeout, which passes it on.
  wait "$emulator"
done
wait "$emulator"
status=$?
tr -d '\r' <"$console"
echo "$name: $((SECONDS - started)) s"
[ "$status" -ne 124 ] || fail "the guest did not end within $timeout_s s"
[ "$status" -eq 0 ] || fail "the emulator ended with $status"
grep -q '^verdict: good' "$console" || fail "no good verdict"
