#!/bin/sh
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Breaks a line of the library at a time and says whether a test notices:  tools/mutants.sh [options] [word...]
#
#   word           only mutants whose file, list or title contains it: tools/mutants.sh policy_v1 "41 "
#   --changed      only mutants that are new, or whose file was changed, by the commits of the last day before HEAD or in
#                  the work tree; all, where the history ends before (a shallow clone)
#   --seconds N    begin no other one after N seconds; which come first changes from commit to commit
#   --list         print what would run
#
# The mutants stand in tests/mutants/*.txt; tools/mutants.py describes the format.  A mutant is dead if the library no
# longer compiles, or if in one of three runs its test fails or does not end (ten times what it takes, and 20 s; at most
# a minute).  The exit status is 0 if all that ran are dead, 1 if one survived or a list does not fit the code any more.
# A copy of the tree is changed and built, in build/mutants; the work tree stays as it is.
set -eu
cd "$(dirname "$0")/.."
tools/install_dependencies.sh test
exec python3 -B tools/mutants.py "$@"
