#!/bin/sh
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the switch and the migration test in one way, links it with the layer base, and runs it.
#   build_and_run.sh <source root> <include directory> <scratch directory> <library of base> <pic|nopic> <compiler> <flags>...
set -eu
root=$1 include=$2 scratch=$3 base=$4 pic=$5 compiler=$6
shift 6

command -v "$compiler" >/dev/null || { echo "no $compiler"; exit 1; }
launcher=$(command -v ccache || true)
mkdir -p "$scratch"
cd "$scratch"

compile() {  # compile <source> <flags>...
  source=$1
  shift
  # shellcheck disable=SC2086  # launcher may be empty.
  $launcher "$compiler" -std=c++20 -Wall -Wextra -Werror "$@" -I"$include" -I"$root/tests" -c "$source" -o "$(basename "$source" .cc).o"
}

# clang's link-time optimisation needs its own linker.
linker=
case "$compiler $*" in
  clang*-flto*) linker=-fuse-ld=lld ;;
esac

case $pic in
  pic) code=-fPIC ;;
  nopic) code=-fno-pie ;;
esac
compile "$root/context/switch/context.cc" "$code" "$@"
compile "$root/tests/context/matrix/migration.cc" "$code" "$@"
compile "$root/tests/context/matrix/main.cc" "$code" "$@"
libraries="$base -lboost_context -lglog -lpthread"
# shellcheck disable=SC2086  # libraries is several words, linker may be none.
case $pic in
  pic)
    "$compiler" "$@" $linker -shared -o libmigration.so context.o migration.o $libraries
    "$compiler" "$@" $linker -o migration main.o -L. -lmigration -Wl,-rpath,"$scratch"
    ;;
  nopic) "$compiler" "$@" $linker -no-pie -o migration main.o context.o migration.o $libraries ;;
esac
./migration
