#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Makes a bare Debian 12 in a temporary folder, clones HEAD of this checkout into it, and runs a command there, so that
# nothing which only a prepared machine has can help:
#   tools/bare_machine.sh [--keep] [--with <folder>] <command> [<argument>]...
# for example:  tools/bare_machine.sh ./test.sh release
#
# The machine has what debootstrap calls minbase (no compiler, no git, no Python), root as its user, the checkout in
# /root/weft as the current folder, and the host's kernel, network, /dev and /sys. From the host it takes Debian's mirror,
# the settings of apt's proxies, packages that apt has already fetched, and the folder of ccache. JOBS, TEST_JOBS and
# CTEST_ARGS are passed on. All mounts are in a namespace of their own, which ends with the command, however it ends; the
# folder is removed then (--keep: it stays, and its name is printed). --with: this folder of the checkout, which is not
# in HEAD, is in the machine, too.
#
# What debootstrap has made is kept as an archive in the user's cache folder (weft-bare-machine), for a week: Debian's
# packages change. Its last line says the exit status of the command.
#
# Needs root and debootstrap, which is installed where it is missing. The exit status is that of the command; 77 if no
# bare machine can be made here (the reason is printed).
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
suite=bookworm

cannot() {
  echo "bare_machine.sh: no bare machine can be made here: $*" >&2
  exit 77
}

keep=no
if [ "${1:-}" = --keep ]; then
  keep=yes
  shift
fi
with=""
if [ "${1:-}" = --with ]; then
  with=$2
  shift 2
fi
if [ $# -eq 0 ]; then
  sed -n '5,22s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi

[ "$(id -u)" -eq 0 ] || cannot "it takes root, to mount and to change the root folder"
if ! command -v debootstrap >/dev/null; then
  install="apt-get install --yes --quiet --no-install-recommends debootstrap"
  export DEBIAN_FRONTEND=noninteractive
  $install || { apt-get update --quiet && $install; } || cannot "debootstrap is missing and was not installed"
fi
command -v git >/dev/null || cannot "git is missing, to clone this checkout"
unshare --mount --pid --fork true || cannot "a mount and a process namespace are refused (a container's limits?)"

# Where the host gets Debian 12 from; Debian's own servers if it has another system.
sources=$(apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) main' 'Created-By: Packages' 2>/dev/null |
  grep -E " $suite(-updates|-security)? main\$" | sort --unique || true)
if ! grep --quiet " $suite main\$" <<<"$sources"; then
  sources="deb http://deb.debian.org/debian/ $suite main
deb http://deb.debian.org/debian/ $suite-updates main
deb http://deb.debian.org/debian-security/ $suite-security main"
fi
mirror=$(awk -v suite="$suite" '$3 == suite { print $2; exit }' <<<"$sources")
options=(--variant=minbase)
[[ $mirror != https:* ]] || options+=(--include=ca-certificates)
fetched=/var/cache/apt/archives
[ ! -d "$fetched" ] || options+=("--cache-dir=$fetched")

machine=$(mktemp -d "${TMPDIR:-/tmp}/weft-bare-machine.XXXXXX")
root=$machine/root
child=""
clean_up() {
  # SIGKILL for unshare takes its namespace's first process with it, and that one all others; the mounts go with them.
  [ -z "$child" ] || { kill -KILL "$child" 2>/dev/null && wait "$child"; } || true
  if [ "$keep" = yes ]; then
    echo "bare machine: kept in $root"
  else
    rm -rf --one-file-system "$machine"
  fi
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
in_namespace() {  # in_namespace <command>...   In the background, so that a signal to this script is not held up by it.
  unshare --mount --pid --fork --kill-child "$@" &
  child=$!
  local status=0
  wait "$child" || status=$?
  child=""
  return "$status"
}

started=$SECONDS
cache=${XDG_CACHE_HOME:-$HOME/.cache}/weft-bare-machine
archive=$cache/$suite-$(date +%G-%V)-$(sha256sum <<<"$mirror ${options[*]}" | cut --characters=1-12).tar
if [ -e "$archive" ]; then
  mkdir "$root"
  tar --extract --file "$archive" --directory "$root"
else
  if ! in_namespace debootstrap "${options[@]}" "$suite" "$root" "$mirror" >"$machine/debootstrap.log" 2>&1; then
    tail -n 20 "$machine/debootstrap.log" >&2
    cannot "debootstrap failed (mirror: $mirror)"
  fi
  rm -f "$cache"/*.tar
  # It appears only when it is complete. Device files are the host's.
  { mkdir -p "$cache" && tar --create --one-file-system --exclude './var/cache/apt/archives/*.deb' --exclude './dev/*' \
    --file "$archive.$$" --directory "$root" . && mv "$archive.$$" "$archive"; } || rm -f "$archive.$$"
fi

echo "$sources" >"$root/etc/apt/sources.list"
apt-config dump | grep -E '^Acquire::(http|https|Check-[A-Za-z-]*)(::[A-Za-z-]+)* ' >"$root/etc/apt/apt.conf.d/90host" || true
# The machine is thrown away: its packages need not survive a power loss.
echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/90unsafe-io"
cp --dereference /etc/resolv.conf /etc/hosts "$root/etc/"
# Hard links cost nothing, and the machine keeps its own lock on the folder. On another file system: fetched anew.
cp --link --no-clobber "$fetched"/*.deb "$root$fetched/" 2>/dev/null || true
# "*": under sudo the checkout is not root's, and git refuses it.
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' git clone --quiet . "$root/root/weft"
[ -z "$with" ] || { mkdir -p "$root/root/weft/$with" && cp -r "$with/." "$root/root/weft/$with/"; }
[ -z "$(git -c safe.directory='*' status --porcelain 2>/dev/null)" ] || echo "bare machine: what is not committed is not in it"

environment=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "TERM=${TERM:-dumb}")
for name in JOBS TEST_JOBS CTEST_ARGS http_proxy https_proxy no_proxy; do
  [ -z "${!name:-}" ] || environment+=("$name=${!name}")
done
ccache=""
if command -v ccache >/dev/null && ccache=$(ccache --get-config cache_dir) && mkdir -p "$ccache"; then
  mkdir -p "$root/root/.cache/ccache"
  environment+=("CCACHE_MAXSIZE=$(ccache --get-config max_size)")
fi
echo "bare machine: Debian $(cat "$root/etc/debian_version") made in $((SECONDS - started)) s, runs: $*"

started=$SECONDS
status=0
# shellcheck disable=SC2016  # What is in single quotes is for the shells inside.
in_namespace sh -euc '
  root=$1 ccache=$2
  shift 2
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  [ -z "$ccache" ] || mount --bind "$ccache" "$root/root/.cache/ccache"
  exec chroot "$root" env --ignore-environment "$@"
' sh "$root" "$ccache" "${environment[@]}" sh -c 'cd /root/weft && exec "$@"' sh "$@" || status=$?
# For the next bare machine.
cp --link --no-clobber "$root$fetched"/*.deb "$fetched/" 2>/dev/null || true
echo "bare machine: exit status $status after $((SECONDS - started)) s: $*"
exit "$status"
