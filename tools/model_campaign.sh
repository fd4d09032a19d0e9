#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Explores the interleavings of the model tests further than the test suite does.
#
#   tools/model_campaign.sh [--build DIR] [--seconds N] [--preemptions P] [--weak W] [--random SEED] [--only WORD]
#
#   --build DIR       where Weft is built (default: build/release, which `cmake --preset release` makes); the model
#                     tests are built there if they are not yet
#   --seconds N       how long for each scenario at most (default: 60)
#   --preemptions P   how many preemptions (default: each scenario's own; -1: any number)
#   --weak W          how many outcomes that a sequentially consistent machine would not have (as above; with -1 a loop
#                     may read old values for ever, and is reported as a livelock)
#   --random SEED     executions at random, without bounds, instead of all within the bounds
#   --only WORD       only the programs with WORD in their name: run_queue, wait_queue ...
#
# Ends with 1 if a violation was found; its report ends with the line that replays it.
set -euo pipefail

usage() {
  sed -n '5,/^set /s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

build=
only=
export WEFT_MODEL_SECONDS=60
while (($# > 0)); do
  (($# > 1)) || usage
  case "$1" in
    --build) build=$(realpath -- "$2") ;;
    --seconds) export WEFT_MODEL_SECONDS=$2 ;;
    --preemptions) export WEFT_MODEL_PREEMPTIONS=$2 ;;
    --weak) export WEFT_MODEL_WEAK=$2 ;;
    --random) export WEFT_MODEL_RANDOM=$2 ;;
    --only) only=$2 ;;
    *) usage ;;
  esac
  shift 2
done
cd "$(dirname "$0")/.."
build=${build:-build/release}
if [[ ! -f "$build/CMakeCache.txt" ]]; then
  echo "model_campaign.sh: Weft is not built in $build: cmake --preset release, or --build DIR" >&2
  exit 2
fi

cmake --build "$build" --target weft_model_programs

status=0
found=0
for program in "$build"/bin/*_model; do
  [[ -x "$program" && "$(basename "$program")" == *"$only"* ]] || continue
  found=1
  echo "== $(basename "$program")"
  "$program" --gtest_brief=1 || status=1
done
if ((!found)); then
  echo "model_campaign.sh: no program has '$only' in its name" >&2
  exit 2
fi
exit "$status"
