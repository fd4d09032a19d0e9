#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs clang-tidy (.clang-tidy) over the sources of the layers; a finding is an error.
#   tools/lint.sh [files...]
set -euo pipefail
cd "$(dirname "$0")/.."

# A tree that is configured but never built.  Without the tests: model tests compile some of the layers' files many
# times.
build=build/lint
cmake --preset clang -B "$build" -DWEFT_BUILD_TESTS=OFF -DWEFT_BUILD_BENCHMARKS=OFF >/dev/null
clang_tidy=$(command -v clang-tidy-14 || command -v clang-tidy)
if [ $# -gt 0 ]; then
  files=("$@")
else
  # The layers: the folders that have a library.
  layers=$(sed -n 's/^set(WEFT_LAYERS \(.*\))$/\1/p' CMakeLists.txt)
  mapfile -t files < <(for layer in $layers; do find "$layer" -name '*.cc' 2>/dev/null; done | sort)
fi
# On stderr clang-tidy only counts the warnings of system headers that it does not show.
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "${JOBS:-$(nproc)}" "$clang_tidy" -p "$build" --quiet 2>"$build/clang-tidy.log" || {
  grep --invert-match 'warnings generated' "$build/clang-tidy.log" || true
  exit 1
}
