#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Formats all sources by .clang-format; with --check, only says which are not (exit status 1).
set -euo pipefail
cd "$(dirname "$0")/.."

# Version 14: others break lines differently.
clang_format=$(command -v clang-format-14 || command -v clang-format)
mapfile -d '' files < <(find . -path './build*' -prune -o -path ./.git -prune -o \( -name '*.h' -o -name '*.cc' \) -type f -print0)
if [ "${1:-}" != --check ]; then
  exec "$clang_format" -i "${files[@]}"
fi
"$clang_format" --dry-run --Werror "${files[@]}"
# Comments are not reflowed, so their length is checked here.
if grep --line-number --extended-regexp '^.{121,}$' "${files[@]}" | grep --extended-regexp '^[^:]+:[0-9]+: *//'; then
  echo "lines of more than 120 characters" >&2
  exit 1
fi
