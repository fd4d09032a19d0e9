#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# What tools/packages.sh --test runs on a Debian with nothing on it: installs the packages in build/packages/deb,
# uses them by the words of docs/install.md and of the tutorial, and removes them. Not for a machine that is somebody's
# own.
#
# Nothing of the checkout is used but documents, and programs of tests/consumer.
set -euo pipefail
cd "$(dirname "$0")/../.."
source=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export DEBIAN_FRONTEND=noninteractive
names=()
for file in build/packages/deb/*.deb; do names+=("$(basename "$file" | cut --delimiter=_ --fields=1)"); done

step() {  # step <name> <command>...   Its output is shown if it fails.
  local name=$1 started=$SECONDS
  shift
  # Not in a condition: there, -e would not hold in the function.
  set +e
  (set -e; "$@") >"$scratch/log" 2>&1
  local status=$?
  set -e
  if [ "$status" -ne 0 ]; then
    cat "$scratch/log"
    echo "FAILED  $name"
    exit 1
  fi
  echo "ok      $name ($((SECONDS - started)) s)"
}

# The lines between the fences that follow `marker` in a document.
lines_after() {  # lines_after <marker> <document>
  awk -v marker="$1" '$0 == marker { found = 1; next } found && /^```/ { if (inside) exit; inside = 1; next } inside' "$2"
}
# The fenced block whose first line is `first`.
block() {  # block <first line> <document>
  awk -v first="$1" '$0 == first { inside = 1; next } inside && /^```/ { exit } inside' "$2"
}

install_packages() {
  apt-get update --quiet
  local line
  line=$(lines_after '<!-- install the packages -->' docs/install.md | grep '^apt-get install ')
  # The documents' line, with "yes" to its question.
  bash -euxc "${line/install/install --yes --quiet --no-install-recommends}"
  apt-get install --yes --quiet --no-install-recommends g++ cmake make pkg-config man-db
}
recommendations() {  # What is loaded by dlopen(): no tool finds it.
  [ "$(dpkg-query --show --showformat='${Recommends}' 'libweft[0-9]*')" = libdw1 ]
}
all_headers() {  # One whose install rule names no component would be in no package.
  local layers layer
  layers=$(sed -n 's/^set(WEFT_LAYERS \(.*\))$/\1/p' CMakeLists.txt)
  for layer in $layers; do
    diff <(cd "$layer" && find . -name '*.h' | sort) <(cd "/usr/include/weft/$layer" && find . -name '*.h' | sort)
  done
}
use_tools() {
  (cd / && weft_topology --fiber_topology='pack:2 numa:1 core:8 pu:2' | grep --quiet group)
  man --where weft_topology
}
by_pkg_config() {
  cd "$scratch"
  bash -euxo pipefail -c "$(lines_after '<!-- run with the packages -->' "$source/docs/install.md")"
  ldd hello | grep "libweft[.]so[.].* => /.*/libweft[.]so[.]"
}
by_find_package() {  # The tutorial's first project.
  mkdir "$scratch/shop"
  cd "$scratch/shop"
  block '# CMakeLists.txt' "$source/docs/tutorial/1-hello.md" >CMakeLists.txt
  block '// hello.cc' "$source/docs/tutorial/1-hello.md" >hello.cc
  cmake -B build
  cmake --build build
  [ "$(build/hello)" = "Hello from a fiber" ]
}
adapters() {
  local package
  for package in weft-tls weft-http2; do
    # shellcheck disable=SC2046  # Several words.
    g++ -std=c++20 "tests/consumer/pkg_config/$package.cc" $(pkg-config --cflags --libs $package) -o "$scratch/$package"
    "$scratch/$package"
  done
  cmake -S tests/consumer -B "$scratch/consumer" '-DWEFT_COMPONENTS=tls;http2'
  cmake --build "$scratch/consumer" --target http2_consumer
  "$scratch/consumer/http2_consumer"
}
remove_packages() {
  apt-get purge --yes --quiet "${names[@]}"
  local left
  left=$(find / -xdev -path /root -prune -o -path /proc -prune -o -path /tmp -prune -o -iname '*weft*' -print)
  [ -z "$left" ] || { echo "left behind: $left"; return 1; }
  ! ldconfig --print-cache | grep weft
}

[ "${#names[@]}" -eq 4 ] || { echo "expected four packages, found: ${names[*]}"; exit 1; }
step "install ${names[*]}" install_packages
step recommendations recommendations
step headers all_headers
step weft_topology use_tools
step "hello by pkg-config" by_pkg_config
step "hello by find_package" by_find_package
step "adapters" adapters
step remove remove_packages
echo "packages: installed, used and removed"
