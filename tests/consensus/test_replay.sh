#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_replay.sh SIMULATE: a seed of the simulator happens again, to the last message,
# and one that fails among others fails in the same way alone.
set -euo pipefail

simulate=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail()
{
	echo "$*"
	exit 1
}

same_trace() # PROTOCOL SEED
{
	local i

	for i in 1 2; do
		"$simulate" --protocol "$1" --seed "$2" --trace > "$tmp/trace$i" ||
			fail "$1: seed $2 fails: $(tail -n 1 "$tmp/trace$i")"
	done
	cmp "$tmp/trace1" "$tmp/trace2" || fail "$1: seed $2 has two traces"
}

# The store has the fault, so some seed fails.
same_failure() # PROTOCOL FAULT
{
	local seed status=0

	"$simulate" --protocol "$1" --bug "$2" --seeds 1-10000 > "$tmp/all" || status=$?
	[ $status -eq 1 ] || fail "$1: no seed finds $2: status $status"
	seed=$(awk '$1 == "seed" && $3 == "fails:" { print $2 }' "$tmp/all")
	[ "$seed" -gt 1 ] || fail "$1: the first seed that finds $2 is '$seed', not one behind others"
	status=0
	"$simulate" --protocol "$1" --bug "$2" --seed "$seed" > "$tmp/one" || status=$?
	[ $status -eq 1 ] || fail "$1: seed $seed alone: status $status"
	diff "$tmp/all" "$tmp/one" || fail "$1: seed $seed fails in another way alone"
}

for protocol in paxos nopaxos; do
	for seed in 1 2 3; do
		same_trace $protocol $seed
	done
done
# A name of the trace's own for each message: this is the last one.
grep -q ' VOTE ballot ' "$tmp/trace1" || fail "nopaxos: a trace without votes"

same_failure paxos any-promise
same_failure nopaxos undecides
