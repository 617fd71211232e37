#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_bench_verify.sh BIN_DIR PLANTED: dfi-bench finds damage that a preloaded library plants
# in what flows bring: changed words always, tuples in another order with --verify.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bench=$1/dfi-bench planted=$2
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT
cd "$tmp"

# shuffles STATUS PLANTED VERIFIED [ARGUMENT]...
shuffles()
{
	local rc=0

	LD_PRELOAD=$planted PLANTED=$2 timeout $wait_limit "$bench" shuffle --procs 2 \
		--api batch --tuple-size 16 --bytes 64K --repeat 1 --no-baseline --json \
		--timeout $wait_limit "${@:4}" > out 2> err || rc=$?
	[ $rc = "$1" ] || fail "$2, ${*:4}: status $rc: $(cat out)"
	grep -q "\"verified\": $3" out || fail "$2, ${*:4}: $(cat out)"
}

shuffles 1 changed false
shuffles 0 swapped true
shuffles 1 swapped false --verify
shuffles 1 swapped false --verify --targets 2 --target-threads 1

# Tuples of one to three bytes: their sum, and with --verify their order.
export PLANTED_SIZE
for PLANTED_SIZE in 1 3; do
	shuffles 1 changed false --tuple-size $PLANTED_SIZE
	shuffles 0 swapped true --tuple-size $PLANTED_SIZE
	shuffles 1 swapped false --verify --tuple-size $PLANTED_SIZE
done
unset PLANTED_SIZE

# The targets of scale are another process's.
scales() # STATUS PLANTED VERIFIED [ARGUMENT]...
{
	local rc=0

	LD_PRELOAD=$planted PLANTED=$2 PLANTED_SIZE=64 timeout $wait_limit "$bench" scale --of flows \
		--counts 1,3 -D 2ms --repeat 1 --iterations 10 --json --timeout $wait_limit \
		"${@:4}" > out 2> err || rc=$?
	[ $rc = "$1" ] || fail "scale, $2, ${*:4}: status $rc: $(cat out err)"
	[ "$(grep -c "\"verified\": $3" out)" = 2 ] || fail "scale, $2, ${*:4}: $(cat out)"
}
scales 1 changed false
scales 0 swapped true
scales 1 swapped false --verify

# A run whose rows are wrong fails as well.
rc=0
LD_PRELOAD=$planted PLANTED=changed timeout $wait_limit "$bench" run E9 --out results \
	--seconds 0.001 --repeat 1 > out 2> err || rc=$?
[ $rc = 1 ] || fail "run E9 ends with $rc: $(cat out)"
grep -q '^E9 .* FAILED$' out || fail "E9: $(cat out)"
