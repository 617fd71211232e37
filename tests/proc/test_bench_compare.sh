#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_bench_compare.sh BIN_DIR: dfi-bench compare judges results by their rounds, and its
# exit status tells of each that is slower, wrong or missing.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bin=$1
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT
bench=$bin/dfi-bench
cd "$tmp"

# A row of a bandwidth: rounds and their baseline's, each around a value. Volumes differ
# from run to run.
row() # API VALUE BASELINE [VERIFIED]
{
	awk -v api="$1" -v value="$2" -v base="$3" -v verified="${4-true}" 'BEGIN {
		for (i = 0; i < 9; i++) {
			noise = 1 + (i * 4 % 9 - 4) / 2000
			rounds = rounds (i ? ", " : "") value * noise
			others = others (i ? ", " : "") base * noise
		}
		printf "{\"experiment\": \"shuffle\", \"api\": \"%s\", \"bytes\": %d, ", api,
			value * 1000
		printf "\"value\": %.3f, \"unit\": \"GB/s\", \"verified\": %s, ", value, verified
		printf "\"transport\": \"shm\", \"baseline\": \"raw\", "
		printf "\"rounds\": [%s], \"baseline_rounds\": [%s]}", rounds, others
	}'
}
file() # NAME ROW...
{
	(IFS=, && printf '{"rows": [%s]}\n' "${*:2}") > "$1"
}
compares() # STATUS ARGUMENT...
{
	local rc=0

	timeout $wait_limit "$bench" compare "${@:2}" > out 2> err || rc=$?
	[ $rc = "$1" ] || fail "compare ${*:2} ends with $rc: $(cat out err)"
}
says() # FILE TEXT
{
	grep -q -- "$2" "$1" || fail "no '$2' in: $(cat "$1")"
}

file old "$(row push 10 20)" "$(row claim 30 40)"
compares 0 old old
says out '^0 slower by more than 2 %, 0 faster, 2 the same, 0 unclear'
awk 'length > 100' out err > long
[ ! -s long ] || fail "a line has more than 100 columns: $(cat long)"

file slow "$(row claim 30 40)" "$(row push 9 20)"
compares 1 old slow
says out '^1 slower by more than 2 %, 0 faster, 1 the same'
says out ' 0\.900 .* slower$'
compares 0 slow old
says out '^0 slower by more than 2 %, 1 faster'
compares 0 --tolerance 15 old slow

# A machine that was slower slows the baseline down as well.
file slow_machine "$(row push 5 10)" "$(row claim 15 20)"
compares 0 old slow_machine
says out ' baseline '
compares 1 --absolute old slow_machine
says out '^2 slower'

# Of times, less is better.
sed 's|GB/s|ns|g' old > old_ns
sed 's|GB/s|ns|g' slow > slow_ns
compares 0 old_ns slow_ns
says out '^0 slower by more than 2 %, 1 faster'
compares 1 slow_ns old_ns

file fewer "$(row push 10 20)"
compares 1 old fewer
says err "fewer has no row of shuffle api=claim transport=shm"
compares 0 fewer old
file wrong "$(row push 10 20 false)" "$(row claim 30 40)"
compares 1 old wrong
says out 'wrong data'
# Two rows of the same are paired in their order.
file twice "$(row push 10 20)" "$(row push 5 20)"
compares 0 twice twice
says out '^0 slower by more than 2 %, 0 faster, 2 the same'
# One round says nothing about noise.
sed 's/"rounds": \[[^]]*\]/"rounds": [10]/g' old > single
compares 0 old single
says out '2 with too few rounds$'

compares 1 --json old slow
if command -v jq > log; then
	[ "$(jq -c '[.slower, .missing, (.rows[] | .verdict)]' out)" = '[1,0,"slower","same"]' ] ||
		fail "JSON: $(cat out)"
fi

for bad in '{' '{"rows": 1}' '{"rows": [{}]}' '{"rows": []}' '[]'; do
	echo "$bad" > bad
	compares 1 old bad
	says err '^dfi-bench.*: bad'
done
compares 1 old none
says err none
compares 64 old
compares 64 old old old
compares 64 --tolerance x old old

# What commands write is understood, and each row has its rounds.
timeout $wait_limit "$bench" sequencer --seconds 0.001 --repeat 5 --json > real 2> log ||
	fail "sequencer: $(cat log)"
timeout $wait_limit "$bench" raw --tuple-size 64,1K --seconds 0.001 --repeat 5 --json \
	> raw 2> log || fail "raw: $(cat log)"
for results in real raw; do
	compares 0 $results $results
	says out ' 0 with too few rounds$'
done
timeout $wait_limit "$bench" raw --tuple-size 64 --seconds 0.001 --repeat 5 --csv > csv \
	2> log || fail "raw --csv: $(cat log)"
! grep -q rounds csv || fail "CSV has lists: $(cat csv)"
timeout $wait_limit "$bench" run sequencer --seconds 0.001 --repeat 5 --out results \
	> log 2>&1 || fail "run: $(cat log)"
compares 0 results results
says out ' 0 with too few rounds$'
