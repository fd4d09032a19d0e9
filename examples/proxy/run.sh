#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# The middle tier of a search under load:  examples/proxy/run.sh [folder of the programs] [seconds]
# The same until Ctrl-C, with admin pages:  examples/proxy/run.sh [folder of the programs] --admin=127.0.0.1:0
#
# Starts two backends and the proxy on loopback, loads the proxy with wrk, which checks each answer (search.lua), and
# stops them. Prints throughput, latency and what the schedulers have counted. Exit status 0: every answer was right and
# every program ended regularly. No process is left.
set -euo pipefail
programs=$(cd "${1:-build/release/bin}" && pwd)
seconds=${2:-5}
admin=""
case $seconds in --admin=*) admin=$seconds seconds="" ;; esac
cd "$(dirname "$0")/../.."

command -v wrk >/dev/null || { echo "wrk is not there (Debian: wrk)" >&2; exit 1; }
output=$(mktemp -d)
processes=()
# shellcheck disable=SC2317  # Called by the trap.
cleanup() {
  for process in "${processes[@]}"; do
    kill -KILL "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
  rm -rf "$output"
}
trap cleanup EXIT

# start <name> <program> <arguments>: in the background; its address in $address.
start() {
  local name=$1 program=$programs/$2
  shift 2
  : >"$output/$name"  # It is read before the program may have run.
  "$program" "$@" >"$output/$name" 2>&1 &
  processes+=($!)
  local try
  for try in {1..200}; do
    address=$(sed -n 's/^listening on //p' "$output/$name")
    [ -z "$address" ] || return 0
    kill -0 $! 2>/dev/null || break
    sleep 0.05
  done
  echo "$name does not start ($try):" >&2
  cat "$output/$name" >&2
  return 1
}

# One request of 33 takes 5 ms instead of 0.2: hedging answers for those.  Set a flag after --flagfile to override it.
delays=200:96,5000:3
start backend1 rpc_backend --flagfile=conf/default.flags --listen=127.0.0.1:0 --delays_us="$delays"
backends=$address
start backend2 rpc_backend --flagfile=conf/default.flags --listen=127.0.0.1:0 --delays_us="$delays"
backends=$backends,$address
start proxy rpc_proxy --flagfile=conf/default.flags --listen=127.0.0.1:0 --backends="$backends" --deadline_ms=2000 --hedge_ms=3 ${admin:+"$admin"}

if [ -n "$admin" ]; then
  pages=""
  for _ in {1..200}; do  # The line comes right behind that of the address.
    pages=$(sed -n 's/.*: admin pages at //p' "$output/proxy")
    [ -z "$pages" ] || break
    sleep 0.05
  done
  printf 'searches: http://%s/search?q=fibers\nadmin pages: %s\nCtrl-C ends it.\n' "$address" "$pages"
  trap 'exit 0' INT TERM
  # A light load, for something to see.
  while kill -0 "${processes[2]}" 2>/dev/null; do
    wrk --threads 1 --connections 4 --duration 60 --script examples/proxy/search.lua "http://$address" >/dev/null 2>&1 &
    processes[3]=$!
    wait "${processes[3]}" || break
  done
  cat "$output/proxy" >&2
  exit 1
fi

timeout $((seconds + 30)) wrk --threads 1 --connections 50 --duration "$seconds" --timeout 5 \
  --script examples/proxy/search.lua "http://$address" >"$output/wrk" 2>&1
sed -n '/searches\/s/,$p' "$output/wrk"

status=0
[ "$(tail -n 1 "$output/wrk")" = "check: ok" ] || { cat "$output/wrk" >&2; status=1; }
names=(backend1 backend2 proxy)
for i in 2 0 1; do  # The proxy first: it finishes what it has with the backends' help.
  kill -TERM "${processes[i]}"
  wait "${processes[i]}" || { echo "${names[i]} ended with status $?" >&2; status=1; }
  printf '%s:\n' "${names[i]}"
  sed '/^listening on/d; s/^/  /' "$output/${names[i]}"
done
processes=()
exit $status
