#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Soaks input and output (tests/stress/io_soak_test.cc) and lifetimes (tests/stress/lifetime_storm_test.cc) for longer
# than the test suite does:  tools/soak.sh [minutes] [preset...]
#
#   minutes   for each preset, default 5; a quarter of it for each of the two under policy v1, and under policy v2
#   preset    default release and asan; any of CMakePresets.json
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${1:-5}
presets=("${@:2}")
[ ${#presets[@]} -gt 0 ] || presets=(release asan)

export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
for preset in "${presets[@]}"; do
  cmake --preset "$preset" >/dev/null
  cmake --build "build/$preset" --parallel "${JOBS:-$(nproc)}" --target stress_io_soak stress_lifetime_storm
  for variant in WEFT_TEST_POLICY=v1 WEFT_TEST_POLICY=v2; do
    printf '== %s, %s\n' "$preset" "$variant"
    env "$variant" WEFT_SOAK_SECONDS=$((minutes * 15)) "build/$preset/bin/stress_io_soak" --gtest_brief=1
    env "$variant" WEFT_STORM_SECONDS=$((minutes * 15)) WEFT_STORM_SEEDS=20 "build/$preset/bin/stress_lifetime_storm" --gtest_brief=1
  done
done
