#!/bin/sh
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the switch and what it needs, and the migration test, in one way, and runs it.
#   build_and_run.sh <source root> <include directory> <scratch directory> <pic|nopic> <compiler> <flags>...
set -eu
root=$1 include=$2 scratch=$3 pic=$4 compiler=$5
shift 5

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

library="context check log str_cat build_mode migration"
case $pic in
  pic) code=-fPIC ;;
  nopic) code=-fno-pie ;;
esac
for source in "$root/context/context.cc" "$root/base/check.cc" "$root/base/log.cc" "$root/base/str_cat.cc" \
  "$root/base/build_mode.cc" "$root/tests/context/matrix/migration.cc" \
  "$root/tests/context/matrix/main.cc"; do
  compile "$source" "$code" "$@"
done
objects=$(for name in $library; do echo "$name.o"; done)
# shellcheck disable=SC2086  # objects is several words, linker may be none.
case $pic in
  pic)
    "$compiler" "$@" $linker -shared -o libmigration.so $objects -lboost_context -lglog -lpthread
    "$compiler" "$@" $linker -o migration main.o -L. -lmigration -Wl,-rpath,"$scratch"
    ;;
  nopic) "$compiler" "$@" $linker -no-pie -o migration main.o $objects -lboost_context -lglog -lpthread ;;
esac
./migration
