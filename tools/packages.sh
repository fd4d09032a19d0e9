#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds Weft's Debian packages, and asks lintian about them; what it finds is an error:
#   tools/packages.sh [--test]
# They are in build/packages/deb afterwards. cmake/WeftPackages.cmake says what is in them.
#
# --test: also installs, uses and removes them on a Debian with nothing on it (tools/bare_machine.sh,
# tests/packages/on_bare_machine.sh). Exit status 77 if no such machine can be made here.
#
# Missing Debian packages are installed first. WEFT_PACKAGE_MAINTAINER="name <address>" in the environment says who
# answers for the packages that you give to others.
set -euo pipefail
cd "$(dirname "$0")/.."

case "$*" in
  "" | --test) ;;
  *)
    sed -n '5,14s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac

tools/install_dependencies.sh packages
build=build/packages
mkdir -p build/logs
# Objects of another checkout and of the preset release are found again. Files have the time of the commit.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH
maintainer=()
[ -z "${WEFT_PACKAGE_MAINTAINER:-}" ] || maintainer=("-DWEFT_PACKAGE_MAINTAINER=$WEFT_PACKAGE_MAINTAINER")
if ! cmake --preset packages "${maintainer[@]}" >build/logs/packages-configure.log 2>&1; then
  cat build/logs/packages-configure.log
  exit 1
fi
cmake --build $build --parallel "${JOBS:-$(nproc)}"
rm -rf $build/deb
if ! (cd $build && umask 022 && cpack) >build/logs/cpack.log 2>&1; then
  cat build/logs/cpack.log
  exit 1
fi

# As root too: it only reads.
lintian --allow-root --fail-on error,warning --tag-display-limit 0 $build/deb/*.deb
(cd $build/deb && sha256sum -- *.deb)
if [ "${1:-}" = --test ]; then
  tools/bare_machine.sh --with $build/deb tests/packages/on_bare_machine.sh
fi
