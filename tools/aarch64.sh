#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds Weft and its tests for aarch64, and runs tests in an emulator (qemu-user):
#   tools/aarch64.sh [--build] [<argument of ctest that chooses tests, but for -E>]...
# for example:  tools/aarch64.sh -L '^context$'
#               tools/aarch64.sh -R '^sync[.]fiber_mutex'
# Without arguments: the unit tests of the layers base to sync, and the context matrix. Builds only what the chosen tests
# need. --build: builds, and runs nothing. JOBS and TEST_JOBS are obeyed as by test.sh.
#
# What it finds and what it cannot find: docs/aarch64.md. tools/aarch64_skipped.txt names the tests that the emulator
# cannot run, with the reasons. The variable QEMU_CPU chooses the processor: by default one with all extensions;
# cortex-a53 has no atomic instructions (LSE), so atomics are loops of exclusive loads and stores.
#
# The compiler and the emulator are Debian packages of this machine. The target's libraries are packages of arm64,
# fetched and unpacked into the user's cache folder (weft-aarch64), for which apt gets lists and settings of its own
# there: this machine's dpkg learns nothing of arm64. Delete the folder to get newer ones. The emulator runs in a user
# namespace with a binfmt_misc of its own (Linux 6.7), so that tests may start programs; the machine's is not touched.
# Where the machine has such an entry already, that one is used.
#
# The last line is a summary. The exit status is ctest's; 77 if this machine cannot (the reason is printed).
set -euo pipefail
cd "$(dirname "$0")/.."
suite=bookworm
preset=aarch64
# What the library and its tests need of the target (tools/install_dependencies.sh has the host's).
target_packages=(libc6-dev libstdc++-12-dev libboost1.81-dev libboost-context1.81-dev libhwloc-dev libgflags-dev
  libgoogle-glog-dev libdw-dev libgtest-dev libssl-dev libnghttp2-dev zlib1g-dev)
layers="base|numa|context|scheduling_group|timer|sync"

cannot() {
  echo "aarch64.sh: not run here: $*" >&2
  exit 77
}

run=yes
if [ "${1:-}" = --build ]; then
  run=no
  shift
fi
case "${1:-}" in
  -h | --help)
    sed -n '5,26s/^# \{0,1\}//p' "$0"
    exit
    ;;
esac
for argument in "$@"; do
  case $argument in
    -E* | --exclude-regex*)
      echo "aarch64.sh: -E is taken: tools/aarch64_skipped.txt says what is left out" >&2
      exit 2
      ;;
  esac
done
chosen=("$@")
# The models compute for minutes each in an emulator, but for a few: -R '^base[.].*_model'.
[ $# -gt 0 ] || chosen=(-L "^($layers)\$" -LE '^model$')
started=$SECONDS
jobs=${JOBS:-$(nproc)}

tools/install_dependencies.sh aarch64 || cannot "packages are missing and were not installed"
emulator=$(command -v qemu-aarch64) || cannot "qemu-aarch64 (Debian: qemu-user) is missing"

# --- The target's libraries ---

cache=${XDG_CACHE_HOME:-$HOME/.cache}/weft-aarch64
sysroot=$cache/sysroot-$suite-$(sha256sum <<<"${target_packages[*]}" | cut --characters=1-12)

# apt as if on a bare machine of arm64, whose state is in the folder $1. Servers and proxies are the host's.
write_apt_settings() {
  local state=$1 keyring=/usr/share/keyrings/debian-archive-keyring.gpg sources line
  # shellcheck disable=SC2016  # apt expands it.
  sources=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) main' 'Created-By: Packages' 2>/dev/null |
    grep -E " $suite(-updates|-security)? main\$" | sort --unique || true)
  if ! grep --quiet " $suite main\$" <<<"$sources"; then
    sources="http://deb.debian.org/debian/ $suite main
http://deb.debian.org/debian/ $suite-updates main
http://deb.debian.org/debian-security/ $suite-security main"
  fi
  mkdir -p "$state"/{lists,archives}/partial
  : >"$state/status"
  while read -r line; do echo "deb [signed-by=$keyring] $line"; done <<<"$sources" >"$state/sources.list"
  cat >"$state/apt.conf" <<END
#clear APT::Architectures;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
Dir::State "$state";
Dir::State::lists "$state/lists";
Dir::State::status "$state/status";
Dir::Cache "$state";
Dir::Cache::archives "$state/archives";
Dir::Etc::sourcelist "$state/sources.list";
Dir::Etc::sourceparts "-";
END
}

# Links with absolute names would lead to the host's files.
make_links_relative() {
  local link target
  find "$1" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
    target=$(readlink "$link")
    ln --symbolic --force --no-dereference --relative "$1$target" "$link"
  done
}

unpack_package() {  # unpack_package <package> <folder>
  dpkg-deb --fsys-tarfile "$1" |
    tar --extract --keep-directory-symlink --no-same-owner --directory "$2" \
      --exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale'
}

# A shell of its own: it ends at the first error, and leaves nothing behind. (Not after `if`, nor before `||`: there
# errors would not end it.)
make_sysroot() (
  set -e
  state=$cache/apt.$$ made=$sysroot.$$
  trap 'rm -rf "$state" "$made"' EXIT
  mkdir -p "$made"
  write_apt_settings "$state"
  apt-get --config-file="$state/apt.conf" --quiet update
  apt-get --config-file="$state/apt.conf" --quiet --yes --download-only install "${target_packages[@]}"
  # As Debian's own base-files has them.
  for directory in bin sbin lib; do
    mkdir -p "$made/usr/$directory"
    ln --symbolic "usr/$directory" "$made/$directory"
  done
  for package in "$state"/archives/*.deb; do unpack_package "$package" "$made"; done
  make_links_relative "$made"
  # It appears only when it is complete. Another run may have been faster.
  mv --no-target-directory "$made" "$sysroot" || [ -d "$sysroot" ]
)

if [ ! -d "$sysroot" ]; then
  echo "aarch64.sh: fetches libraries of arm64 into $sysroot"
  set +e
  make_sysroot
  made=$?
  set -e
  [ $made -eq 0 ] || cannot "the libraries of arm64 cannot be had"
fi

# --- The emulator ---

# The header of an executable file: 64 bits, little-endian, aarch64. P: argv[0] is kept. F: the emulator is opened now.
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
# shellcheck disable=SC2016  # The shell inside expands it.
with_binfmt='
  mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
  printf %s "$1" >/proc/sys/fs/binfmt_misc/register
  shift
  exec "$@"'
enter=(unshare --user --map-root-user --mount sh -euc "$with_binfmt" sh ":weft-aarch64:M::$magic:$mask:$emulator:PF")
probe=$sysroot/usr/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1
if "$probe" --version >/dev/null 2>&1; then
  enter=()
elif [ $run = yes ] && ! "${enter[@]}" "$probe" --version >/dev/null; then  # Before the long build.
  cannot "neither has the machine a binfmt_misc entry for aarch64, nor may a user namespace have one (Linux 6.7)"
fi

# --- Building ---

export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
mkdir -p build/logs build/$preset
# Linked into each program. Its name changes with its source, so programs are linked anew.
madvise=$PWD/build/$preset/madvise-$(sha256sum <tools/aarch64_madvise.c | cut --characters=1-12).o
# CMake would go on using what it has found in another folder.
grep --quiet --line-regexp "CMAKE_SYSROOT:[A-Z]*=$sysroot" build/$preset/CMakeCache.txt 2>/dev/null ||
  rm -rf build/$preset/CMakeCache.txt build/$preset/CMakeFiles
aarch64-linux-gnu-gcc "--sysroot=$sysroot" -O2 -Wall -Wextra -Werror -c -o "$madvise" tools/aarch64_madvise.c
cmake --preset $preset -Werror=dev "-DCMAKE_SYSROOT=$sysroot" \
  "-DCMAKE_EXE_LINKER_FLAGS=$madvise" >build/logs/$preset-configure.log 2>&1 || {
  cat build/logs/$preset-configure.log
  exit 1
}
# ctest's words for what is left out, and for what is chosen.
mapfile -t not_run < <(sed -n 's/^ctest:\([^ ]*\) .*/\1/p' tools/aarch64_skipped.txt)
[ ${#not_run[@]} -eq 0 ] || chosen+=(--exclude-regex "^($(IFS='|' && echo "${not_run[*]}"))\$")
mapfile -t tests < <(ctest --test-dir build/$preset --show-only "${chosen[@]}" | sed -n 's/^ *Test *#[0-9]*: //p')
[ ${#tests[@]} -gt 0 ] || {
  echo "aarch64.sh: no test is chosen by: ${chosen[*]}" >&2
  exit 2
}
# What their commands name in the build folder, as far as it is to be built.
mapfile -t targets < <(comm -12 \
  <(printf '%s\n' "${tests[@]}" | python3 -B -c '
import pathlib, re, sys
chosen = set(sys.stdin.read().split("\n"))
for file in pathlib.Path(sys.argv[1]).rglob("CTestTestfile.cmake"):
    for name, command in re.findall(r"^add_test\(\[=\[(.*)\]=\] (.*)\)$", file.read_text(), re.MULTILINE):
        if name in chosen:
            print(*(pathlib.Path(word).name for word in re.findall("\"([^\"]*)\"", command)), sep="\n")
' "build/$preset" | sort --unique) \
  <(ninja -C build/$preset -t targets all | sed -n 's/^\([^:/ ]*\): phony$/\1/p' | sort --unique))
cmake --build build/$preset --parallel "$jobs" --target weft_base "${targets[@]}"
built=$((SECONDS - started))
if [ $run = no ]; then
  echo "built for aarch64 in $built s: ${#targets[@]} programs"
  exit
fi

# --- Running ---

skipped=$(sed -n '/^[^#]/s/ .*//p' tools/aarch64_skipped.txt | sed '/^ctest:/d' | paste --serial --delimiters=:)
export QEMU_LD_PREFIX=$sysroot GTEST_FILTER="*-$skipped"
run_ctest=(ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --parallel "${TEST_JOBS:-$((2 * jobs))}"
  "${chosen[@]}")
status=0
"${enter[@]}" "${run_ctest[@]}" 2>&1 | tee build/logs/$preset-ctest.log || status=$?
echo "not run in the emulator:"
sed -n '/^[^#]/p' tools/aarch64_skipped.txt
echo "aarch64: $(grep 'tests passed' build/logs/$preset-ctest.log || echo 'ctest did not finish'), built in $built s," \
  "run in $((SECONDS - started - built)) s"
exit $status
