#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Soaks for longer than the test suite does:  tools/soak.sh [minutes] [preset...]
# Of tests/stress: input and output (io_soak_test.cc), lifetimes (lifetime_storm_test.cc), and HTTP/2 (http2_soak_test.cc,
# if nghttp2 and OpenSSL are installed); and tests/rpc/rpc_soak_test.cc (if protobuf is).
#
#   minutes   for each preset, default 8; an eighth of it for each of the four under policy v1, and under policy v2
#   preset    default release and asan; any of CMakePresets.json
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${1:-8}
presets=("${@:2}")
[ ${#presets[@]} -gt 0 ] || presets=(release asan)

export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
for preset in "${presets[@]}"; do
  cmake --preset "$preset" >/dev/null
  targets=(stress_io_soak stress_lifetime_storm)
  all=$(cmake --build "build/$preset" --target help)
  for target in stress_http2_soak rpc_soak; do
    [[ $all != *$target* ]] || targets+=("$target")
  done
  cmake --build "build/$preset" --parallel "${JOBS:-$(nproc)}" --target "${targets[@]}"
  for policy in v1 v2; do
    for target in "${targets[@]}"; do
      printf '== %s, %s, %s\n' "$preset" "$policy" "$target"
      env WEFT_TEST_POLICY=$policy WEFT_SOAK_SECONDS=$((minutes * 60 / 8)) WEFT_STORM_SECONDS=$((minutes * 60 / 8)) \
        WEFT_STORM_SEEDS=20 "build/$preset/bin/$target" --gtest_brief=1
    done
  done
done
