#!/bin/sh
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs what Weft needs on Debian 12, as far as it is missing:  tools/install_dependencies.sh [demo|test]
#   demo   what is needed to build the library and the examples
#   test   (default) also the test and benchmark libraries, clang with its sanitizers, and the checkers
set -eu

build_packages="g++ cmake ninja-build ccache libboost-context1.81-dev libhwloc-dev libgflags-dev libgoogle-glog-dev"
test_packages="libgtest-dev libbenchmark-dev clang libclang-rt-14-dev lld clang-format clang-tidy gdb python3"

case "${1:-test}" in
  demo) wanted="$build_packages" ;;
  test) wanted="$build_packages $test_packages" ;;
  *)
    echo "usage: $0 [demo|test]" >&2
    exit 2
    ;;
esac

missing=""
for package in $wanted; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "missing packages:$missing (and neither root nor sudo to install them)" >&2
    exit 1
  fi
  as_root="sudo"
fi

echo "installing:$missing"
install_missing() {
  # shellcheck disable=SC2086  # One word for each package.
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends $missing
}
# The package lists of a fresh image are empty, those of an old one may name versions that are gone.
if ! install_missing; then
  $as_root apt-get update --quiet
  install_missing
fi
