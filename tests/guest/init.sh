#!/bin/sh
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# The first process of the guest (boot.sh): runs the tests, and says the verdict.
#
#   init.sh <machine> [filter]
#
# <machine>: for each node its CPUs and its distances, "0-3:10,21;4-7:21,10": what boot.sh asked of the emulator.
# [filter]: only these tests (--gtest_filter), and no planted violations.
#
# On the machine with odd nodes the tests are run once more in a control group whose memory is that of node 0.
#
# Planted violations: the same tests, told by GUEST_PLANT to break one rule on purpose.  Each must fail, else the checks
# see nothing.
export PATH=/bin
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev 2>/dev/null
busybox mount -t tmpfs tmp /tmp
# ldconfig's cache is not there; the libraries are where they were.
export LD_LIBRARY_PATH=/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu
export GUEST_MACHINE="$1"
filter="${2:-*}"

failed=0
seconds() { busybox cut -d . -f 1 /proc/uptime; }

echo "guest: up after $(seconds) s, $(busybox uname -r), nodes $(busybox cat /sys/devices/system/node/online)"
if guest_tests --gtest_filter="$filter" --gtest_color=no; then :; else failed=1; fi

# must_fail <plant> <filter of the tests that must see it>: each of them.
must_fail() {
  for test in $2; do
    if GUEST_PLANT=$1 guest_tests --gtest_filter="$test" --gtest_color=no >/tmp/log 2>&1; then
      echo "planted violation $1: NOT SEEN by $test"
      failed=1
    elif busybox grep -q "^\[  FAILED  \] $test" /tmp/log; then
      echo "planted violation $1: seen by $test: $(busybox grep -m 1 -A 5 Failure /tmp/log | busybox tail -n 5 | busybox tr -s '\n ' ' ')"
    else
      echo "planted violation $1: $test ended otherwise:"
      busybox tail -n 20 /tmp/log
      failed=1
    fi
  done
}
if [ "$filter" = "*" ]; then
  must_fail unpinned GuestPinning.EachWorkerIsOnItsPlannedCpuOfItsNode
  must_fail numa_off GuestPinning.EachWorkerIsOnItsPlannedCpuOfItsNode
  must_fail wrong_node "GuestMemory.StacksAndFibersOfEachGroupAreOnItsNode GuestMemory.QueuesAndWorkersOfEachGroupAreOnItsNode
    GuestMemory.TimersOfEachGroupAreOnItsNode"
  must_fail steal_across "GuestStealing.IsNeverAcrossNodesIfThatIsOff GuestStealing.IsNotEvenTriedAcrossNodesIfThatIsOff"
  must_fail steal_nowhere GuestStealing.EachNodeRunsAFairPartOfWhatIsStartedOnOne
fi
# in_cpuset <node> <filter>: with memory from this node only, whatever the CPUs.
in_cpuset() {
  group=/sys/fs/cgroup/tests
  busybox mount -t cgroup2 cgroup /sys/fs/cgroup && echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control &&
    busybox mkdir "$group" && echo "$1" >"$group/cpuset.mems" && echo $$ >"$group/cgroup.procs" &&
    GUEST_CPUSET=$1 guest_tests --gtest_filter="$2" --gtest_color=no
}
case "$filter" in
  GuestOddNodes*) if in_cpuset 0 "$filter"; then :; else failed=1; fi ;;
esac

echo "guest: done after $(seconds) s"
if [ "$failed" = 0 ]; then echo "verdict: good"; else echo "verdict: BAD"; fi
busybox poweroff -f
