#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_run.sh BIN: dfi-kv-run runs a store, kills its leader, stops a follower,
# and leaves no process behind, however it ends.
set -euo pipefail

bin=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
small=(--replicas 3 --clients 2 --outstanding 4 --records 100 --warm-up 0.1)

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
	timeout 120 "$bin/dfi-kv-run" "$@" > "$tmp/out" 2> "$tmp/err" ||
		status=$?
	[ $status -eq "$expected" ] ||
		fail "dfi-kv-run $*: status $status, expected $expected"
}

number() # MEMBER
{
	sed -n "s/^ *\"$1\": \([0-9.-]*\),\?$/\1/p" "$tmp/out" | head -1
}

# The processes of a group, all of which a run's are: zombies have ended.
left() # GROUP
{
	ps -eo pgid=,stat=,args= | awk -v group="$1" '$1 == group && $2 !~ /^Z/'
}

run 0 "${small[@]}" --workload a,95/5 --seconds 0.5
[ "$(grep -c '^paxos ' "$tmp/out")" -eq 2 ] || fail "a line for each workload"
grep -q 'each follower .* us, leader\|leader .* us, each follower' "$tmp/out" ||
	fail "costs of both roles"
[ ! -s "$tmp/err" ] || fail "a run without faults says nothing on stderr"

run 0 "${small[@]}" --workload b --seconds 2 --kill leader --after 0.5 --json
[ "$(number leader_before)" != "$(number leader_after)" ] ||
	fail "another replica leads after the leader's death"
[ "$(number leader_after)" -ge 0 ] || fail "there is a leader after the kill"
awk -v n="$(number throughput_after)" 'BEGIN { exit !(n > 0) }' ||
	fail "requests end after the kill"
awk -v ms="$(number longest_gap_ms)" 'BEGIN { exit !(ms >= 1) }' ||
	fail "the leader's death is a gap"

run 0 "${small[@]}" --workload a --seconds 1.5 --kill follower --after 0.3 \
	--restart 0.3
grep -q 'a follower, is killed' "$tmp/out" || fail "the kill is told"
grep -q 'is started again' "$tmp/out" || fail "the start is told"

# A follower that is stopped for a second holds nobody up, and catches up.
run 0 "${small[@]}" --workload a --seconds 2.5 --stop follower --after 0.3 \
	--for 1 --json
for member in throughput_before throughput_during throughput_after; do
	awk -v n="$(number $member)" 'BEGIN { exit !(n > 0) }' ||
		fail "$member: requests end the whole time"
done
[ -n "$(number catch_up_ms)" ] || fail "the follower catches up"
awk -v from="$(number stopped_s)" -v to="$(number continued_s)" \
	'BEGIN { exit !(to - from >= 1) }' || fail "it is stopped for a second"

run 0 "${small[@]}" --workload a --seconds 1 --stop client --after 0.2 --for 0.3
grep -q 'a client is stopped' "$tmp/out" || fail "the stop is told"
grep -q 'the client goes on' "$tmp/out" || fail "its end is told"
grep -q 'of the other clients: .* while the client was stopped' "$tmp/out" ||
	fail "the rates of the others"

run 0 "${small[@]}" --wiring flows --workload a --seconds 0.5
grep -q '^paxos-flows ' "$tmp/out" || fail "a line of the other wiring"

# Files are tried before the load, which may take hours.
run 1 "${small[@]}" --csv "$tmp/none/loads.csv"
run 1 "${small[@]}" --plot "$tmp/none/plot.svg"
[ ! -s "$tmp/out" ] || fail "a load has begun whose result cannot be written"

run 64 --wiring rings
run 64 --wiring flows --protocol nopaxos
run 64 --workload nothing
run 64 --kill someone
run 64 --kill client
run 64 --stop registry
run 64 --stop leader --kill leader
run 64 --after 2
run 64 --for 2
run 64 --kill leader --for 2
run 64 --stop leader --restart 2
run 64 --stop follower --replicas 1
run 64 --stop client --clients 1
run 64 --stop leader --after 1 --for 3 --seconds 4
run 64 --kill leader --workload a,b
run 64 --kill leader --after 5 --seconds 4

# Its leader is killed in the middle of a run: all others end with it. The run
# has a process group of its own.
set -m
"$bin/dfi-kv-run" "${small[@]}" --workload a --seconds 60 > "$tmp/out" \
	2> "$tmp/err" &
leader=$!
set +m
deadline=$((SECONDS + 60))
until [ "$(left $leader | wc -l)" -ge 8 ]; do # registry, 3, observer, 2, itself
	[ $SECONDS -lt $deadline ] || fail "the run has not started all"
	kill -0 $leader 2> /dev/null || fail "the run has ended"
	sleep 0.05
done
kill -KILL $leader
wait $leader 2> /dev/null || true
until [ -z "$(left $leader)" ]; do
	[ $SECONDS -lt $deadline ] || {
		left $leader
		fail "processes are left"
	}
	sleep 0.05
done
echo "runs, fails over, and leaves nothing behind"
