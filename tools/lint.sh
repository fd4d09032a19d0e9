#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs clang-tidy (.clang-tidy) over the sources of the layers; a finding is an error. Without files it also builds the
# reference (tools/reference.sh), whose warnings are errors, too, unless it was built before from the same headers and
# documents.
#   tools/lint.sh [files...]
# tools/clang_tidy.py leaves out files that were found clean before and have not changed.
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
  reference=(reference "*.h" "*.md" docs tools/reference.sh version.h)
  if ! python3 -B tools/pass_record.py has "${reference[0]}" 0 "${reference[@]:1}"; then
    tools/reference.sh build/reference
    python3 -B tools/pass_record.py add "${reference[@]}"
  fi
  # The layers: the folders that have a library.
  layers=$(sed -n 's/^set(WEFT_LAYERS \(.*\))$/\1/p' CMakeLists.txt)
  mapfile -t files < <(for layer in $layers; do find "$layer" -name '*.cc' 2>/dev/null; done | sort)
fi
exec python3 -B tools/clang_tidy.py "$clang_tidy" "$build" "${files[@]}"
