#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# What tools/bare_machine.sh runs for .ci/run.  It installs packages and writes to /usr/local: not for a machine that is
# somebody's own.
#
#   readme     the lines of README.md from a clean Debian to a linked program, word for word
#   shared     libweft.so
#   libunwind  what our CMake says after Debian's libc++-dev has removed libunwind-dev
#   demo       ./demo.sh, with its packages
#   presets    the configurations of ./test.sh, with its packages; one test of each
#   without    each optional package hidden: what needs it is left out; each required one hidden: the error names its package
#
# Compilations that ./test.sh has done on the host are not done again, where the folder of ccache is shared.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
step() {  # step <name> <command>...   Its output is shown if it fails.
  local name=$1 started=$SECONDS
  shift
  if "$@" >"$log" 2>&1; then
    echo "ok      $name ($((SECONDS - started)) s)"
  else
    cat "$log"
    echo "FAILED  $name"
    failed=1
  fi
}

readme_lines() {
  local lines
  lines=$(sed -n '/^<!-- run on a bare machine -->$/,/^```$/p' README.md | sed '1,2d;$d')
  [ "$(wc -l <<<"$lines")" -eq 5 ] || { echo "expected five lines in README.md, found: $lines"; return 1; }
  bash -euxo pipefail -c "$lines"
}

configures() {  # configures <preset> <arguments of cmake>   -Werror=dev as in test.sh.
  cmake --preset "$1" -Werror=dev "${@:2}"
}
says() {  # says <text> <command that fails>...   CMake breaks lines.
  local said
  if said=$("${@:2}" 2>&1); then
    echo "was expected to fail: ${*:2}"
    return 1
  fi
  grep --quiet --fixed-strings "$1" <<<"$(tr -s ' \n' '  ' <<<"$said")" || { echo "$said"; echo "expected: $1"; return 1; }
}
libunwind() {
  apt-get install --yes --quiet --no-install-recommends libc++-dev || return
  says "apt-get install libunwind-dev" cmake --preset library -B build/libunwind || return
  apt-get install --yes --quiet --no-install-recommends libunwind-dev || return
  cmake --preset library -B build/libunwind
}

preset() {  # preset <name> <layer> <test> <arguments of cmake>
  configures "$1" "${@:4}" && cmake --build "build/$1" --target "$2_$3" &&
    ctest --test-dir "build/$1" -R "^$2[.]$3\$" --no-tests=error --output-on-failure
}

without() {  # without <package>   An optional one.
  rm -rf build/without
  configures release -B build/without "-DCMAKE_DISABLE_FIND_PACKAGE_$1=ON"
}
without_libuv() {  # CMake has no package for it.
  rm -rf build/without
  local said
  said=$(configures release -B build/without -DWEFT_UV_LIBRARY= 2>&1) &&
    grep --quiet --fixed-strings "fibers_in_libuv is left out" <<<"$said" || { echo "$said"; return 1; }
}
needs() {  # needs <package> <Debian's package>
  rm -rf build/without
  says "apt-get install $2" cmake --preset release -B build/without "-DCMAKE_DISABLE_FIND_PACKAGE_$1=ON"
}

shared_library() {  # An installed libweft.so, and a program that finds it by CMake.
  cmake --preset library -B build/shared -DBUILD_SHARED_LIBS=ON && cmake --build build/shared &&
    cmake --install build/shared --prefix "$PWD/build/shared/prefix" &&
    cmake -S tests/consumer -B build/shared/consumer -G Ninja "-DCMAKE_PREFIX_PATH=$PWD/build/shared/prefix" &&
    cmake --build build/shared/consumer --target locks && build/shared/consumer/locks
}

export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
step readme readme_lines
step libunwind libunwind
step "shared library" shared_library
step demo ./demo.sh

step "packages of test.sh" tools/install_dependencies.sh test
step release preset release io tcp_stream
step clang preset clang io tcp_stream
# Fewer layers: test.sh has not compiled them for this preset.
step debug preset debug sync fiber_latch
for sanitizer in asan tsan; do
  step $sanitizer preset $sanitizer io tcp_stream -DWEFT_BUILD_EXAMPLES=OFF -DCMAKE_DISABLE_FIND_PACKAGE_gRPC=ON
done

# TBB and Boost.Fiber are not among the packages above; they are named for machines that have them.
for package in gRPC Protobuf OpenSSL Nghttp2 Python3 TBB boost_fiber boost_json; do
  step "without $package" without "$package"
done
step "without libuv" without_libuv
while read -r package debian_package; do
  step "without $package: an error" needs "$package" "$debian_package"
done <<<'Boost libboost-context1.81-dev
Hwloc libhwloc-dev
gflags libgflags-dev
glog libgoogle-glog-dev
GTest libgtest-dev
benchmark libbenchmark-dev'

[ "$failed" -eq 0 ] && echo "bare machine: all well"
exit "$failed"
