#!/bin/sh
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs what Weft needs on Debian 12, as far as it is missing:
#   tools/install_dependencies.sh [build|demo|user|test|aarch64|browser|packages|reference|compare|servers]
#   build    what is needed to build the library, and to build a program with it
#   demo     also what ./demo.sh needs: Protobuf for examples/rpc and examples/proxy, nghttp2 for weft::http, and wrk, which
#            loads the latter
#   user     what ./test.sh needs without arguments: also the test library, and what the adapters for TLS and HTTP/2 need
#   test     (default) also what all examples need (gRPC is for interop/grpc_*.h and one example only), the benchmark
#            library, clang with its sanitizers, the checkers, and an emulator for the tests on machines with several
#            NUMA nodes (tests/guest) and Go's gRPC, without which their tests are skipped
#   browser  the browser in which ./test.sh release looks at the admin pages: some 110 MB
#   aarch64  what tools/aarch64.sh needs of this machine
#   packages what tools/packages.sh needs
#   reference  what tools/reference.sh needs
#   compare  what bench/compare needs: the other runtimes (each is left out where it cannot be had), gnuplot, valgrind
#   servers  what bench/compare_servers.sh and examples/databases/measure.py need: other servers (Debian starts nginx,
#            PostgreSQL and Redis where it starts services), and load generators
set -eu

build_packages="g++ cmake ninja-build ccache pkg-config libboost1.81-dev libboost-context1.81-dev libhwloc-dev libgflags-dev
  libgoogle-glog-dev libdw-dev"
demo_packages="libboost-json1.81-dev libprotobuf-dev protobuf-compiler libnghttp2-dev zlib1g-dev wrk"
adapter_packages="libssl-dev libnghttp2-dev zlib1g-dev"
user_packages="git libgtest-dev $adapter_packages python3"
debian_packages="$adapter_packages binutils dpkg-dev file git lintian"
example_packages="libuv1-dev libhiredis-dev libpq-dev libgrpc++-dev protobuf-compiler-grpc"
test_packages="libbenchmark-dev clang libclang-rt-14-dev lld clang-format clang-tidy gdb python3-grpcio python3-prometheus-client
  curl llvm nghttp2-client nghttp2-server openssl redis-tools valgrind strace binutils abigail-tools"
cross_packages="ccache clang cmake g++-aarch64-linux-gnu lld ninja-build python3 qemu-user"
reference_packages="doxygen python3"
emulator_packages="qemu-system-x86 busybox-static"
browser_packages="chromium"
go_packages="golang-go golang-google-grpc-dev"
compare_packages="libgtest-dev libbenchmark-dev python3 gnuplot-nox valgrind binutils"
peer_packages="libboost-fiber1.81-dev libtbb-dev golang-go rustc cargo librust-tokio-dev"
server_packages="$go_packages nginx-light postgresql redis-server redis-tools wrk nghttp2-client curl
  openssl python3"

case "${1:-test}" in
  build) wanted="$build_packages" optional="" ;;
  demo) wanted="$build_packages $demo_packages" optional="" ;;
  user) wanted="$build_packages $user_packages" optional="" ;;
  test)
    wanted="$build_packages $demo_packages $user_packages $example_packages $test_packages $reference_packages" optional="$emulator_packages $go_packages"
    ;;
  aarch64) wanted="$cross_packages" optional="" ;;
  browser) wanted="$browser_packages" optional="" ;;
  packages) wanted="$build_packages $debian_packages" optional="" ;;
  reference) wanted="$reference_packages" optional="" ;;
  compare) wanted="$build_packages $compare_packages" optional="$peer_packages" ;;
  servers) wanted="$server_packages" optional="" ;;
  *)
    echo "usage: $0 [build|demo|user|test|aarch64|browser|packages|reference|compare|servers]" >&2
    exit 2
    ;;
esac

missing_of() {  # missing_of <package>...
  for package in "$@"; do
    status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || printf ' %s' "$package"
  done
}

# shellcheck disable=SC2086  # One word for each package, here and below.
missing=$(missing_of $wanted)
# shellcheck disable=SC2086
missing_optional=$(missing_of $optional)
[ -n "$missing$missing_optional" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "missing packages:$missing$missing_optional (and neither root nor sudo to install them)" >&2
    [ -z "$missing" ]
    exit
  fi
  as_root="sudo"
fi

install_packages() {
  # shellcheck disable=SC2086
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends $1
}
# The package lists of a fresh image are empty; those of an old one may name versions that are gone.
install_with_fresh_lists() {
  echo "installing:$1"
  install_packages "$1" || { $as_root apt-get update --quiet && install_packages "$1"; }
}
[ -z "$missing" ] || install_with_fresh_lists "$missing"
if [ -n "$missing_optional" ] && ! install_with_fresh_lists "$missing_optional"; then
  for package in $missing_optional; do  # One that cannot be had shall not cost the others.
    install_packages "$package" || echo "not installed: $package; what needs it will be left out" >&2
  done
fi
