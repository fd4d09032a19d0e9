#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds Weft and runs all its tests:  ./test.sh [release|clang|asan|tsan|lint|debug|asan_examples|tsan_examples|all]...
#
#   release   g++, optimised: everything, and all tests
#   clang     clang++, optimised: that all but the tests compiles without a warning (thread safety analysis included); the tests are
#             compiled by clang++ for the sanitizers
#   asan      clang++, AddressSanitizer with leak check, UndefinedBehaviorSanitizer, debug checks: the tests, but for those of
#             examples/ and of the gRPC adapter, whose libraries take clang++ longer than all the rest
#   tsan      clang++, ThreadSanitizer, debug checks: the same
#   lint      format and clang-tidy
#   debug     g++ with debug checks: the tests (not part of `all`: asan and tsan have the same checks)
#   asan_examples, tsan_examples   what asan and tsan leave out (not part of `all`)
#   all       (default) release, clang, asan, tsan, lint
#
# Missing Debian packages are installed first.  Ends with a summary; the exit status is 0 if all went well.
# Environment: JOBS (parallel compilers, default: the CPUs), TEST_JOBS (CPUs for tests, of which most take two; default: JOBS + 1,
# since many tests wait), CTEST_ARGS (e.g. "-R sync").
set -uo pipefail
cd "$(dirname "$0")" || exit

jobs=${JOBS:-$(nproc)}
test_jobs=${TEST_JOBS:-$((jobs + 1))}
logs=build/logs
summary=()
failed=0

note() {  # note <part> <ok|FAILED> <text>
  summary+=("$(printf '%-10s %-7s %s' "$1" "$2" "$3")")
  [ "$2" = ok ] || failed=1
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

run_tests() {  # run_tests <preset> <arguments of ctest>
  local preset=$1 started=$SECONDS log="$logs/$1-ctest.log" result=ok
  shift
  echo "== $preset: tests"
  # shellcheck disable=SC2086  # CTEST_ARGS is several words.
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --parallel "$test_jobs" "$@" ${CTEST_ARGS:-} |
    tee "$log"
  [ "${PIPESTATUS[0]}" -eq 0 ] || result=FAILED
  note "$preset" "$result" "$(grep 'tests passed' "$log" || echo 'ctest did not finish'), $((SECONDS - started)) s"
  local name
  while read -r name; do note "$preset" ok "  $name"; done < <(sed -n 's/^\t *\(.*(Skipped)\)$/\1/p' "$log")
  if [ "$result" = FAILED ]; then
    while read -r name; do note "$preset" FAILED "  $name"; done < <(sed -n '/The following tests FAILED/,$s/^\t *//p' "$log")
  fi
}

run_part() {
  case "$1" in
    release) build release && run_tests release ;;
    debug) build debug && run_tests debug ;;
    clang) build clang -DWEFT_BUILD_TESTS=OFF ;;
    # The labels: see the CMakeLists.txt of the tests that carry them.
    asan | tsan)
      build "$1" -DWEFT_BUILD_EXAMPLES=OFF -DCMAKE_DISABLE_FIND_PACKAGE_gRPC=ON && run_tests "$1" --label-exclude "no_$1"
      ;;
    asan_examples | tsan_examples)
      build "${1%_examples}" -DWEFT_BUILD_EXAMPLES=ON -DCMAKE_DISABLE_FIND_PACKAGE_gRPC=OFF &&
        run_tests "${1%_examples}" --label-exclude "no_${1%_examples}" --label-regex '^(examples|rpc|interop)$'
      ;;
    lint)
      echo "== lint"
      if tools/format.sh --check; then note format ok ""; else note format FAILED "run tools/format.sh"; fi
      if tools/lint.sh; then note clang-tidy ok ""; else note clang-tidy FAILED "see above"; fi
      ;;
  esac
}

parts=()
for argument in "${@:-all}"; do
  case "$argument" in
    all) parts+=(release clang asan tsan lint) ;;
    release | debug | clang | asan | tsan | lint | asan_examples | tsan_examples) parts+=("$argument") ;;
    *)
      sed -n '5,24s/^# \{0,1\}//p' "$0" >&2
      exit 2
      ;;
  esac
done

tools/install_dependencies.sh test || exit 1
mkdir -p "$logs"
# Objects of another checkout of the same sources are found again.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
started=$SECONDS
for part in "${parts[@]}"; do run_part "$part"; done

echo
echo "== summary ($((SECONDS - started)) s)"
printf '%s\n' "${summary[@]}"
exit "$failed"
