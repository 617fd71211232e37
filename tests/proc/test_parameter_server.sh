#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_parameter_server.sh BIN_DIR: the example parameter_server explains its arguments, and
# lost output is an error.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
export LC_ALL=C

server=$1/parameter_server
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT
cd "$tmp"
n_checks=0

refuse() # PATTERN ARGUMENT...
{
	local pattern=$1 ret=0
	shift
	timeout $wait_limit "$server" "$@" > out 2> err || ret=$?
	[ $ret -eq 64 ] || fail "$*: exit status $ret, not 64"
	grep -qE -- "$pattern" err || fail "$*: stderr doesn't match '$pattern'"
	[ ! -s out ] || fail "$*: something was printed"
	n_checks=$((n_checks + 1))
}

# The C library's argp does not free what it prints help from.
ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 "$server" --help > out 2> err ||
	fail "--help: exit status $?"
for word in WORKERS WEIGHTS ITERATIONS SERVERS 100000000; do
	grep -q $word out || fail "--help: no word of $word"
done
refuse "^parameter_server: WORKERS: '0' is not a whole number from 1 to 64" 0
refuse "^parameter_server: WEIGHTS: '1e6' is not a whole number from 1 to 100000000" 2 1e6
refuse "^parameter_server: ITERATIONS: '' is not a whole number from 1 to 1000000" 2 7 ''
refuse "^parameter_server: SERVERS: '65' is not a whole number from 1 to 64" 2 7 9 65
refuse "'-5' is not a whole number from 1 on" -5
refuse "'6' is one argument too many: there are WORKERS, WEIGHTS, ITERATIONS and SERVERS" \
	2 3 4 5 6
refuse 'there is no option --hlep: the nearest is --help' --hlep

ret=0
timeout $wait_limit "$server" 1 7 2 > /dev/full 2> err || ret=$?
[ $ret -eq 1 ] || fail "a full device: exit status $ret"
grep -q 'standard output: No space left' err || fail "a full device: no word of it"
ret=0
{ timeout $wait_limit "$server" 1 7 2 2> err || ret=$?; } | true
[ "$(wc -l < err)" -le 1 ] || fail "a closed pipe: more than one line of complaint"

echo "$n_checks checks"
