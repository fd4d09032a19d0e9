#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds the reference, with the documents, as a site: build/reference/html/index.html.
#   tools/reference.sh [folder]
# Fails if Doxygen warns, a public name has no comment, or a link leads nowhere. docs/reference/build.py does the work.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v doxygen >/dev/null || tools/install_dependencies.sh reference
exec python3 -B docs/reference/build.py . "${1:-build/reference}"
