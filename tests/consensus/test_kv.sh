#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_kv.sh BIN: replicas of the store as processes, and its command line:
# commands, a dead registry, a replica that forgets, one that is removed and
# comes back, the restart of all from their logs, and a majority that forgets.
set -euo pipefail

bin=$1
tmp=$(mktemp -d)
export DFI_REGISTRY=unix:@test-kv-$$
declare -a replicas

# shellcheck source=../proc/script_help.sh
. "$(dirname "$0")/../proc/script_help.sh"
trap 'end_children; rm -rf "$tmp"' EXIT

fail()
{
	echo "$*"
	tail -n 30 "$tmp"/err* "$tmp/out"
	exit 1
}

start_registry()
{
	rm -f "$tmp/registry"
	"$bin/dfi-registry" --print-address --listen "$DFI_REGISTRY" \
		> "$tmp/registry" 2> "$tmp/err-registry" &
	registry=$!
	await "$tmp/registry"
}

# SIGCHLD is ignored, as some supervisors leave it.
start() # NUMBER OPTION...
{
	env --ignore-signal=CHLD "$bin/dfi-kv" --id "$1" --replicas 3 "${@:2}" 2>> "$tmp/err$1" &
	replicas[$1]=$!
}

end() # PID...
{
	kill -KILL "$@" || fail "a process has ended by itself"
	wait "$@" 2> /dev/null || :
}

# Exactly this status and output.
expect() # STATUS OUTPUT ARGUMENT...
{
	local status=0

	timeout "${wait_limit:?}" "$bin/dfi-kv-client" --timeout 60000 "${@:3}" \
		> "$tmp/out" 2> "$tmp/err-client" || status=$?
	[ $status -eq "$1" ] || fail "${*:3}: status $status, expected $1"
	[ "$(< "$tmp/out")" = "$2" ] ||
		fail "${*:3}: gave $(< "$tmp/out"), expected $2"
}

members()
{
	"$bin/dfi-kv-client" status 2> /dev/null |
		awk '$1 == "role" { role = $2 }
		    $1 == "members" && role == "leader" { print $2 }'
}

await_members() # NUMBER
{
	local deadline=$((SECONDS + 60))

	until [ "$(members)" = "$1" ]; do
		[ $SECONDS -lt $deadline ] ||
			fail "there are '$(members)' members, expected $1"
	done
}

start_registry
for i in 0 1 2; do
	start $i --bootstrap --log "$tmp/log$i"
done

expect 0 '' put fruit apple
# The end of the child that writes a snapshot would not be seen: 17 is SIGCHLD.
ignored=$(awk '$1 == "SigIgn:" { print $2 }' "/proc/${replicas[0]}/status")
[ $((0x$ignored >> 16 & 1)) -eq 0 ] || fail "a replica ignores SIGCHLD"
expect 0 apple get fruit
expect 0 apple --index-reads get fruit
expect 1 '' get stone
expect 2 '' create fruit pear
expect 2 '' cas fruit pear plum
expect 0 '' cas fruit apple plum
expect 0 plum get fruit
expect 0 '' delete fruit
expect 1 '' get fruit
expect 64 '' put fruit
expect 64 '' get "$(printf '%065d' 0)"

# A replica forgets, and takes its place again as a new one.
end "${replicas[2]}"
rm -r "$tmp/log2"
expect 0 '' put k1 v1
start 2 --log "$tmp/log2"
await_members 3

# Two members go on without the third, which is added again.
expect 0 '' remove 2
await_members 2
expect 0 v1 get k1
end "${replicas[2]}"
rm -r "$tmp/log2"
expect 0 '' add 2
start 2 --log "$tmp/log2"
await_members 3

# No registry: clients that are new can't come in, and say so.
end "$registry"
expect 69 '' --timeout 200 get k1
start_registry
expect 0 '' put k2 v2

# All end, and come back with what they had.
end "${replicas[@]}"
for i in 0 1 2; do
	start $i --log "$tmp/log$i"
done
expect 0 v1 get k1
expect 0 v2 get k2

# A log that is used, or another replica's, is refused.
status=0
"$bin/dfi-kv" --id 0 --replicas 3 --log "$tmp/log0" 2> "$tmp/err" || status=$?
[ $status -eq 69 ] || fail "a log that is used: status $status"
end "${replicas[2]}"
status=0
"$bin/dfi-kv" --id 0 --replicas 3 --log "$tmp/log2" 2> "$tmp/err" || status=$?
[ $status -eq 69 ] || fail "another replica's log: status $status"
grep -q 'belongs to replica 2, not to 0' "$tmp/err" || fail "$(< "$tmp/err")"

# Two of three come back without their logs: the store serves nobody, and says so.
end "${replicas[1]}"
rm -r "$tmp/log1" "$tmp/log2"
for i in 1 2; do
	start $i --log "$tmp/log$i"
done
deadline=$((SECONDS + wait_limit))
until "$bin/dfi-kv-client" --timeout 500 get k1 > "$tmp/out" 2>&1 ||
	grep -q 'majority of the replicas has lost its data' "$tmp/out"; do
	[ $SECONDS -lt $deadline ] || fail "no client is told of the loss"
done
expect 69 '' --timeout 500 get k1
[ "$(grep -c 'majority of the replicas has lost its data' "$tmp/err0")" = 1 ] ||
	fail "replica 0 does not say once that a majority has lost its data"

# Replicas go on trying to open an ordered flow. Its first one fails, as replica 2 is not
# there as one that takes part. On a busy machine leaders would change all the time with
# the --election that is the default, and each begins anew.
await_status() # CONDITION of a line of any replica's status
{
	local deadline=$((SECONDS + wait_limit))

	until "$bin/dfi-kv-client" --cluster order status 2> /dev/null |
		awk "$1 { found = 1 } END { exit !found }"; do
		[ $SECONDS -lt $deadline ] || {
			"$bin/dfi-kv-client" --cluster order status || :
			fail "no replica has '$1'"
		}
	done
}

slow=(--cluster order --bootstrap --heartbeat 50 --election 400)
for i in 0 1; do
	start $i "${slow[@]}" --protocol nopaxos
done
start 2 "${slow[@]}"
await_status '$1 == "role" && $2 == "leader"'
end "${replicas[2]}"
await_status '$1 == "fast_opened" && $2 > 0'
end "${replicas[@]}"

# A follower that starts again is reached by the other follower, which has nothing to tell it
# as long as the leader lives. Without it and the registry they could not meet.
links_up()
{
	"$bin/dfi-info" flows 2> /dev/null | awk '
		/^[^ ]/ { link = $1 ~ /^again\.[0-2]-[0-2]:$/ }
		link && /^  (sources|targets) +1 of 1 attached/ { n++ }
		END { exit n != 12 }'
}

await_links()
{
	local deadline=$((SECONDS + 60))

	until links_up; do
		[ $SECONDS -lt $deadline ] || fail "$*"
		sleep 0.1
	done
}

again=(--cluster again --heartbeat 50 --election 1000)
for i in 0 1 2; do
	: > "$tmp/err$i"
	start $i "${again[@]}" --log "$tmp/again$i" --bootstrap
done
expect 0 '' --cluster again put k v
await_links "replicas do not reach each other"
leader=$(grep -h ': leads in' "$tmp"/err[0-2] | sort | tail -n 1 | sed 's/.*replica \(.\): .*/\1/')
follower=$(((leader + 1) % 3))
end "${replicas[follower]}"
while links_up; do
	sleep 0.01
done
start $follower "${again[@]}" --log "$tmp/again$follower"
await_links "a follower that started again is not reached by all"
others=("$tmp/err$follower" "$tmp/err$((3 - leader - follower))")
before=$(cat "${others[@]}" | grep -c ': leads in' || true)
end "${registry:?}" "${replicas[leader]}"
deadline=$((SECONDS + 60))
until [ "$(cat "${others[@]}" | grep -c ': leads in' || true)" -gt "$before" ]; do
	[ $SECONDS -lt $deadline ] || fail "two of three have no leader"
	sleep 0.1
done
