#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_bench_peers.sh BIN_DIR: dfi-bench peers brings all tuples by each peer that is
# installed, by each measure, and names those that are not installed.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bin=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

peers() # ARGUMENT...
{
	timeout "$wait_limit" "$bin/dfi-bench" peers --bytes 4K --iterations 20 --repeat 1 \
		--timeout "$wait_limit" "$@" >> "$tmp/rows" 2> "$tmp/log" ||
		fail "dfi-bench peers $*: $(cat "$tmp/rows" "$tmp/log")"
}

peers="pipe unix zeromq-ipc nng openmpi-send openmpi-put mpich-send mpich-put ucx-tag ucx-put ucx-am \
libfabric-shm"

# Bare cache lines are left out: the ends spin, which takes minutes on a busy machine.
peers --wide --measure tuples,batches
peers --wide --measure trips --peer "${peers// /,}"
for measure in tuples batches trips; do
	for peer in memcpy raw $peers; do
		case $measure-$peer in
		tuples-memcpy | trips-memcpy | trips-raw) continue ;;
		esac
		row="^ *$measure .* $peer .*"
		if grep -q "^# $peer: not installed, no row$" "$tmp/rows"; then
			! grep -q "$row" "$tmp/rows" ||
				fail "$peer is not installed: $(cat "$tmp/rows")"
		else
			grep -q "$row yes$" "$tmp/rows" ||
				fail "$measure, $peer: no row that is right: $(cat "$tmp/rows")"
		fi
	done
	[ "$(grep -c "^ *$measure .* yes  .* yes$" "$tmp/rows")" = 1 ] ||
		fail "$measure: not one peer is best: $(cat "$tmp/rows")"
done
# These need nothing but a compiler.
for peer in memcpy raw pipe unix; do
	grep -q "^ *batches .* $peer .* yes$" "$tmp/rows" || fail "no $peer: $(cat "$tmp/rows")"
done

# Collective calls of each MPI bring all tuples, also those of the last, short batch, and so
# do its threads.
: > "$tmp/rows"
peers --wide --measure shuffle,replicate,combine,threads --tuple-size 16,24
for way in shuffle-alltoall shuffle-alltoallv replicate-bcast combine-reduce threads-threads \
	threads-processes; do
	for mpi in openmpi mpich; do
		peer=$mpi-${way#*-}
		row="^ *${way%-*} .* $peer .* yes$"
		grep -q "^# $peer: not installed, no row$" "$tmp/rows" ||
			[ "$(grep -c "$row" "$tmp/rows")" = 2 ] ||
			fail "$way, $mpi: not two rows that are right: $(cat "$tmp/rows")"
	done
done

# A node that is slow on purpose, beside the calls that have it.
: > "$tmp/rows"
peers --measure shuffle --straggler 2 --json
if grep -q '"baseline": "openmpi-alltoallv"' "$tmp/rows"; then
	grep -q '"straggler": 2' "$tmp/rows" || fail "no straggler: $(cat "$tmp/rows")"
fi
! grep -q '"baseline": "\(raw\|.*-alltoall\)"' "$tmp/rows" ||
	fail "a peer without a slow node: $(cat "$tmp/rows")"
! grep -q '"verified": false' "$tmp/rows" || fail "a straggler: $(cat "$tmp/rows")"
if "$bin/dfi-bench" peers --straggler 2 > /dev/null 2> "$tmp/log"; then
	fail "round trips have a straggler"
fi
grep -q -- '--straggler: only with --measure shuffle' "$tmp/log" || fail "$(cat "$tmp/log")"

# Tuples whose end a read need not have, and which are larger than a batch.
: > "$tmp/rows"
peers --peer pipe,unix --measure tuples,batches --tuple-size 24,100K --json
[ "$(grep -o '"verified": true' "$tmp/rows" | wc -l)" = 8 ] ||
	fail "not eight rows: $(cat "$tmp/rows")"

if "$bin/dfi-bench" peers --peer send > /dev/null 2> "$tmp/log"; then
	fail "a peer in memory is over TCP"
fi
grep -q -- "--peer 'send': choose from memcpy, raw, openmpi-send" "$tmp/log" ||
	fail "no list of peers: $(cat "$tmp/log")"
