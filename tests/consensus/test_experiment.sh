#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_experiment.sh BUILD: bench/consensus_experiment/run refuses what would fail after
# its loads, compares the same protocol with one replica, and leaves no process behind.
set -euo pipefail

build=$1
experiment=$(dirname "$0")/../../bench/consensus_experiment/run
tmp=$(mktemp -d)
export TMPDIR=$tmp # also of an experiment that is killed
# shellcheck source=../proc/script_help.sh
. "$(dirname "$0")/../proc/script_help.sh"
trap 'end_children; rm -rf "$tmp"' EXIT

fail()
{
	echo "$*"
	cat "$tmp/out" "$tmp/err"
	exit 1
}

run() # STATUS OPTION...
{
	local expected=$1 status=0

	shift
	timeout "${wait_limit:?}" "$experiment" "$build" --sides one-replica \
		--workload a --outstanding 1 --records 100 "$@" > "$tmp/out" 2> "$tmp/err" ||
		status=$?
	[ $status -eq "$expected" ] || fail "$*: status $status, expected $expected"
}

refused() # TEXT OPTION...
{
	run 1 "${@:2}"
	grep -q -- "$1" "$tmp/err" || fail "${*:2}: no '$1'"
	! grep -q '^# closed' "$tmp/err" || fail "${*:2}: a load has begun"
}

refused "--repeat: '0' is not a whole number from 1" --repeat 0
refused "--repeat: 'seconds' is not a whole number" --repeat seconds
refused "--port: '70000' is not a whole number from 1 to 65516" --port 70000
refused "--equal-load: '2' is not a number from 0 to 1" --equal-load 2
refused 'cannot be written' --csv "$tmp/none/loads.csv"
refused 'cannot be written' --json "$tmp/none/loads.json"

run 0 --repeat 1 --seconds 0.2 --csv "$tmp/loads.csv" --json "$tmp/loads.json"
[ "$(wc -l < "$tmp/loads.csv")" -eq 2 ] || fail "$(< "$tmp/loads.csv")"
# Side, mix, outstanding, requests, 3 latencies; processor, messages, segments by role.
awk '$1 == "one-replica" && NF == 13 { found = 1 } END { exit !found }' "$tmp/out" ||
	fail "the table has no messages and segments: $(< "$tmp/out")"
[ "$(sed -n 's/.*"store": "\(.*\)",/\1/p' "$tmp/loads.json")" = paxos ] ||
	fail "one replica is measured by more than one protocol: $(< "$tmp/loads.json")"

# Ended in the middle of a load, it leaves nothing behind.
left() # GROUP: its processes that have not ended
{
	ps -eo pgid=,stat=,args= | awk -v group="$1" '$1 == group && $2 !~ /^Z/'
}

ended_by() # SIGNAL
{
	local deadline=$((SECONDS + 60)) leader

	set -m
	"$experiment" "$build" --sides one-replica --workload a --outstanding 1 \
		--records 100 --repeat 1 --seconds 60 > "$tmp/out" 2> "$tmp/err" &
	leader=$!
	set +m
	until left $leader | grep ' dfi-kv --id' > /dev/null; do
		[ $SECONDS -lt $deadline ] || fail "the replica has not started"
		kill -0 $leader 2> /dev/null || fail "the experiment has ended"
		sleep 0.05
	done
	kill "-$1" $leader
	wait $leader 2> /dev/null || true
	until [ -z "$(left $leader)" ]; do
		[ $SECONDS -lt $deadline ] || fail "left after $1: $(left $leader)"
		sleep 0.05
	done
}

ended_by TERM
ended_by KILL
echo "the experiment refuses, measures, and leaves nothing behind"
