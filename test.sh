#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds Weft and tests it:  ./test.sh [user|all|changed|extended|<part>...]
#
#   user      (default) what a user relies on: the library by g++, optimised; the unit tests under both scheduling
#             policies; the tests of io/ and of interop/ but for gRPC; the installed package; the server of the README,
#             started and asked
#   all       the matrix; its parts:
#     release     g++, optimised, also the tests: everything, and all tests
#     mutations   each mutation of a model is found (tools/model_mutations.py)
#     guest       emulated machines with several NUMA nodes (tests/guest)
#     clang       clang++, without debug checks: that all but the tests compiles without a warning (thread safety
#                 analysis included)
#     asan        clang++, AddressSanitizer with leak check, UndefinedBehaviorSanitizer, debug checks: the tests, but for
#                 those of examples/ and of the gRPC adapter, whose libraries take clang++ longer than all the rest
#     tsan        clang++, ThreadSanitizer, debug checks: the same
#     lint        format, clang-tidy, Doxygen's warnings, and the ABI of libweft.so (tools/abi.py)
#     bare        a Debian with nothing on it: README's commands, the packages, each configuration
#   changed   all, without the tests, mutations and machines, emulated or bare, that passed before with the same inputs, by
#             content: while you work
#   extended  what takes long or heavy tools; its parts:
#     asan_examples, tsan_examples   what asan and tsan leave out
#     soak        connections, scopes and HTTP/2 come and go, a minute each (tools/soak.sh)
#     peers       bench/compare's programs of other runtimes run; clients that block against PostgreSQL, Redis and nginx
#     campaign    the models with more preemptions, two seconds each (tools/model_campaign.sh)
#     packages    Debian packages: built, looked at by lintian; installed, used and removed on a Debian with nothing on it
#     aarch64     unit tests up to sync, and the context matrix, built for aarch64 and run in an emulator (tools/aarch64.sh)
#   debug     g++ with debug checks: the tests (asan and tsan have the same checks)
#
# Missing Debian packages are installed first.  Ends with a summary; the exit status is 0 if all that was asked for ran to
# its end and went well. What this machine cannot run (no emulator, no root for a bare machine) is said in the last lines.
# Environment: JOBS (parallel compilers, default: the CPUs), TEST_JOBS (tests at once, default: 6 for each CPU: most
# wait), CTEST_ARGS (e.g. "-R sync"), WEFT_SKIP_UNCHANGED=n (mutations and guest: not what has passed before with the same
# inputs, save one of n; 0: none of it, and bare neither), WEFT_RUN_FAILED_AGAIN=1 (a test that fails runs once more, alone;
# if it passes it is FLAKY, which the summary says and the exit status does not).
set -uo pipefail
cd "$(dirname "$0")" || exit

jobs=${JOBS:-$(nproc)}
test_jobs=${TEST_JOBS:-$((6 * jobs))}
logs=build/logs
summary=()
failed=0
run_ctest=(ctest --test-dir)
all=(release mutations guest clang asan tsan lint bare)
extended=(asan_examples tsan_examples soak peers campaign packages aarch64)

note() {  # note <part> <ok|NOT RUN|FLAKY|FAILED> <text>
  summary+=("$(printf '%-13s %-7s %s' "$1" "$2" "$3")")
  [ "$2" != FAILED ] || failed=1
  [ "$2" = ok ] || echo "== $1 $2: $3" >>"$logs/not_ok.log"  # For .ci/run.
}

build() {  # build <preset> <options of cmake>
  local preset=$1 started=$SECONDS
  shift
  echo "== $preset: build"
  # -Werror=dev: a source that a CMakeLists.txt names but is not there would be left out otherwise (weft_keep_existing).
  if cmake --preset "$preset" -Werror=dev "$@" >"$logs/$preset-configure.log" 2>&1; then
    if cmake --build "build/$preset" --parallel "$jobs" -- -k 0; then
      note "$preset" ok "built in $((SECONDS - started)) s"
      return 0
    fi
    note "$preset" FAILED "does not build"
  else
    cat "$logs/$preset-configure.log"
    note "$preset" FAILED "cannot be configured"
  fi
  return 1
}

run_tests() {  # run_tests <part> <preset> <arguments of ctest>
  local part=$1 preset=$2 started=$SECONDS log="$logs/$1-ctest.log" result=ok name
  shift 2
  echo "== $part: tests"
  # shellcheck disable=SC2086  # CTEST_ARGS is several words.
  "${run_ctest[@]}" "build/$preset" --output-on-failure --no-tests=error --parallel "$test_jobs" "$@" ${CTEST_ARGS:-} |
    tee "$log"
  [ "${PIPESTATUS[0]}" -eq 0 ] || result=FAILED
  if [ -n "${WEFT_RUN_FAILED_AGAIN:-}" ] && [ "$result" = FAILED ] && grep --quiet 'The following tests FAILED' "$log"; then
    echo "== $part: what has failed runs again, one after the other"
    if "${run_ctest[@]}" "build/$preset" --rerun-failed --no-tests=error --output-on-failure --parallel 1; then
      result=ok
      while read -r name; do note "$part" FLAKY "  $name"; done < <(sed -n '/The following tests FAILED/,$s/^\t *//p' "$log")
    fi
  fi
  note "$part" "$result" "$(grep 'tests passed' "$log" || echo 'ctest did not finish'), $((SECONDS - started)) s"
  while read -r name; do note "$part" "NOT RUN" "  $name"; done < <(sed -n 's/^\t *\(.*\) (Skipped)$/\1/p' "$log")
  [ "$result" = ok ] && return
  while read -r name; do note "$part" FAILED "  $name"; done < <(sed -n '/The following tests FAILED/,$s/^\t *//p' "$log")
  return 1
}

run_script() {  # run_script <part> <command>...   77: this machine cannot.
  local part=$1 started=$SECONDS log="$logs/$1.log" status
  shift
  echo "== $part"
  "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  case $status in
    0)
      note "$part" ok "$(tail -n 1 "$log"), $((SECONDS - started)) s"
      return 0
      ;;
    77) note "$part" "NOT RUN" "this machine cannot: $(tail -n 1 "$log")" ;;
    *) note "$part" FAILED "exit status $status, $((SECONDS - started)) s" ;;
  esac
  return 1
}

configure_release() {
  cmake --preset release -Werror=dev >"$logs/release-configure.log" 2>&1 || cat "$logs/release-configure.log"
}

run_mutations() {
  configure_release
  # shellcheck disable=SC2086  # Two words, or none.
  run_script mutations python3 -B tools/model_mutations.py ${WEFT_SKIP_UNCHANGED:+--skip-unchanged $WEFT_SKIP_UNCHANGED}
}

run_guest() {
  local record=(python3 -B tools/pass_record.py)
  # What decides on which node memory lies and who steals from whom; not what fibers wait by.
  local inputs=(base numa context scheduling_group timer fiber io/reactor tests/guest tests/testing cmake CMakeLists.txt)
  if [ -n "${WEFT_SKIP_UNCHANGED:-}" ] && "${record[@]}" has guest "$WEFT_SKIP_UNCHANGED" "${inputs[@]}"; then
    note guest ok "passed before, and nothing of what it is made of has changed"
    return
  fi
  configure_release
  if ! cmake --build build/release --parallel "$jobs" --target guest_tests; then
    note guest FAILED "does not build"
  elif run_tests guest release --label-regex '^guest$' && ! grep --quiet '(Skipped)' "$logs/guest-ctest.log"; then
    "${record[@]}" add guest "${inputs[@]}"
  fi
}

# What a bare machine finds is a package or a step that a script lacks: by scripts, by CMake, by the headers of others.
run_bare() {
  local record=(python3 -B tools/pass_record.py) changed
  local inputs=(cmake tools packaging tests/consumer .ci CMakePresets.json README.md '*.sh' '*CMakeLists.txt')
  changed=$(git status --porcelain -- "${inputs[@]}")
  inputs+=("=$(git grep -h --extended-regexp '^ *# *include <[^>]*/|^ *# *include <[^>]*[.]h' HEAD -- '*.h' '*.cc' | sort -u)")
  if [ "${WEFT_SKIP_UNCHANGED:-}" = 0 ] && [ -z "$changed" ] && "${record[@]}" has bare 0 "${inputs[@]}"; then
    note bare ok "passed before, and no script, CMakeLists.txt or header of others has changed"
  elif run_script bare tools/bare_machine.sh .ci/on_bare_machine.sh && [ -z "$changed" ]; then
    "${record[@]}" add bare "${inputs[@]}"
  fi
}

# Debian's other runtimes and servers, which no other part installs. tokio is not of target all.
run_peers() {
  tools/install_dependencies.sh compare && tools/install_dependencies.sh servers && build release || return
  if cmake --build build/release --parallel "$jobs" --target weft_workload_tokio; then
    run_tests peers release --label-regex '^peers$'
  else
    note peers FAILED "weft_workload_tokio does not build"
  fi
}

run_part() {
  case "$1" in
    user) build user && run_tests user user ;;
    release) build release && run_tests release release --label-exclude '^(guest|peers)$' ;;
    mutations) run_mutations ;;
    guest) run_guest ;;
    debug) build debug && run_tests debug debug --label-exclude '^(guest|peers)$' ;;
    # -O0: what clang++ says of the code comes before it generates any.
    clang) build clang -DWEFT_BUILD_TESTS=OFF "-DCMAKE_CXX_FLAGS_RELEASE=-O0 -DNDEBUG" ;;
    # The labels: see the CMakeLists.txt of the tests that carry them.
    asan | tsan)
      build "$1" -DWEFT_BUILD_EXAMPLES=OFF -DCMAKE_DISABLE_FIND_PACKAGE_gRPC=ON && run_tests "$1" "$1" --label-exclude "no_$1"
      ;;
    asan_examples | tsan_examples)
      build "${1%_examples}" -DWEFT_BUILD_EXAMPLES=ON -DCMAKE_DISABLE_FIND_PACKAGE_gRPC=OFF &&
        run_tests "$1" "${1%_examples}" --label-exclude "^(no_${1%_examples}|peers)$" --label-regex '^(examples|rpc|interop)$'
      ;;
    lint)
      run_script format tools/format.sh --check
      run_script clang-tidy tools/lint.sh
      run_script abi python3 -B tools/abi.py
      ;;
    bare) run_bare ;;
    peers) run_peers ;;
    soak) run_script soak tools/soak.sh 1 ;;
    packages) run_script packages tools/packages.sh --test ;;
    aarch64) run_script aarch64 tools/aarch64.sh ;;
    campaign) run_script campaign tools/model_campaign.sh --seconds 2 ;;
  esac
}

parts=()
for argument in "${@:-user}"; do
  case "$argument" in
    all) parts+=("${all[@]}") ;;
    changed)
      parts+=("${all[@]}")
      run_ctest=(python3 -B tools/changed_tests.py)
      export WEFT_SKIP_UNCHANGED=${WEFT_SKIP_UNCHANGED:-0}
      ;;
    extended) parts+=("${extended[@]}") ;;
    *)
      if [[ " user debug ${all[*]} ${extended[*]} " != *" $argument "* ]]; then
        sed -n '5,/^set /s/^# \{0,1\}//p' "$0" >&2
        exit 2
      fi
      parts+=("$argument")
      ;;
  esac
done

packages="test"
[ "${parts[*]}" != user ] || packages=user
tools/install_dependencies.sh "$packages" || exit 1
# Without it one test fails.
case " ${parts[*]} " in *" release "* | *" debug "*) tools/install_dependencies.sh browser ;; esac
mkdir -p "$logs"
# Objects of another checkout of the same sources are found again.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
started=$SECONDS
for part in "${parts[@]}"; do run_part "$part"; done

echo
echo "== summary ($((SECONDS - started)) s)"
printf '%s\n' "${summary[@]}"
if [ "${parts[*]}" = user ]; then
  echo "./test.sh all adds: the tests optimised, examples, gRPC, stress, models and their mutations, clang++, sanitizers, lint,"
  echo "emulated machines with several NUMA nodes, a bare Debian."
fi
exit "$failed"
