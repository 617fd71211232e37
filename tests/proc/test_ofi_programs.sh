#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_ofi_programs.sh BIN_DIR TEST_DIR [SECONDS]: programs on two hosts with an Ethernet
# between them and no RDMA: a service and its client, the radix join, the aggregate and the
# store. They know the registry's address and key, and nothing else. Their answers are those of one host; those
# of the store, which has load for SECONDS (default 1), are linearizable. So they are over
# a network that delays packets by 20 ms and loses 1 % of them. When it is cut, all say so
# in time, and what is left of the store serves.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
# shellcheck source=tests/proc/hosts_help.sh
. "$(dirname "$0")/hosts_help.sh"
bin=$(realpath "$1") tests=$(realpath "$2") load_s=${3:-1}
# shellcheck disable=SC2034 # for hosts_lose
lossy_link=$tests/proc/lossy_link
hosts_make
cd "$tmp"

fail() # TEXT...
{
	echo "FAILED: $*"
	tail -n 40 ./*.err ./*.json ./*.load 2> /dev/null || true
	exit 1
}

now_ms()
{
	date +%s%3N
}

until_has() # FILE PATTERN MS
{
	local deadline=$(($(now_ms) + $3))

	until grep -q -- "$2" "$1" 2> /dev/null; do
		[ "$(now_ms)" -lt $deadline ] || fail "no '$2' after $3 ms in $1"
		sleep 0.05
	done
}

member() # NAME FILE
{
	sed -n "s/^  \"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$2"
}

# ---- The programs ------------------------------------------------------------

join() # NETWORK ARGUMENT...
{
	local name=join-$1 one two other

	shift
	timeout $wait_limit "$bin/radix_join" --nodes 2 "$@" --json > one.json
	at b -- "$bin/radix_join" --run "$name" --first-node 1 > other.err 2>&1 &
	other=$!
	(at a -- "$bin/radix_join" --run "$name" --nodes 2 --local-nodes 1 "$@" --json) \
		> two.json 2> two.err || fail "$name: exit status $?"
	wait $other || fail "$name: the other host: exit status $?"
	grep -q 'ofi: provider tcp' other.err || fail "$name: not by TCP"
	one="$(member matches one.json) $(member checksum one.json) true"
	two="$(member matches two.json) $(member checksum two.json) $(member verified two.json)"
	[ "$one" = "$two" ] || fail "$name: $two, not $one"
	echo "$name: $(member matches two.json) matches, as in one host"
}

aggregate() # NETWORK
{
	local name=aggregate-$1 other
	local query='select k, count(*), count(v), sum(v), max(w) from rows.csv group by k'

	[ -s one.csv ] || "$bin/aggregate" "$query" | sort > one.csv
	at b -- "$bin/aggregate" --run "$name" --first-process 1 --local-processes 2 \
		> other.err 2>&1 &
	other=$!
	(at a -- "$bin/aggregate" --run "$name" --processes 3 --local-processes 1 "$query") \
		2> two.err | sort > two.csv || fail "$name: exit status $?"
	wait $other || fail "$name: the other host: exit status $?"
	grep -q 'ofi: provider tcp' other.err || fail "$name: not by TCP"
	cmp one.csv two.csv || fail "$name: other results than in one host"
	echo "$name: $(wc -l < two.csv) rows, as in one host"
}

# A client may give up requests on a busy machine; then another one asks.
service()
{
	local server deadline=$(($(now_ms) + 60000))

	at b -- "$bin/rpc-server" > rpc.out 2> rpc.err &
	server=$!
	until_has rpc.out '^ready' 60000
	until (at a -- "$bin/rpc-client" 10) > client.out 2> client.err; do
		grep -q 'timed out' client.out || fail "rpc: exit status $?"
		[ "$(now_ms)" -lt $deadline ] || fail "rpc: $(cat client.out)"
	done
	kill $server
	wait $server || fail "rpc: the other host: exit status $?"
	grep -q 'ofi: provider tcp' rpc.err || fail "rpc: not by TCP"
	echo "rpc: $(cat client.out)"
}

# Three replicas, one in $here, which also has the registry, and clients in $there.
store_start() # NETWORK HEARTBEAT_MS ELECTION_MS
{
	local i host deadline

	store=store-$1 marks=0
	for i in 0 1 2; do
		host=$([ $i -eq 0 ] && echo a || echo b)
		at $host "${settings[@]}" -- "$bin/dfi-kv" --cluster "$store" --id $i \
			--replicas 3 --heartbeat "$2" --election "$3" --bootstrap \
			2> "$store.$i.err" &
		replicas[i]=$!
	done
	at b "${settings[@]}" -- "$tests/consensus/record" "$store" 3 "$store.history" "$store" \
		> "$store.load" 2> "$store.load.err" &
	recorder=$!
	until_has "$store.load" '^serves' 60000
	deadline=$(($(now_ms) + 60000))
	until links_are_up; do
		[ "$(now_ms)" -lt $deadline ] || fail "$store: replicas do not reach each other"
		sleep 0.1
	done
}

# Whether each replica has reached each other one. Later, a replica without the registry
# could not.
links_are_up()
{
	(at a -- "$bin/dfi-info" flows) 2> info.err | awk -v store="$store" '
		/^[^ ]/ { link = index($1, store ".") == 1 && $1 ~ /\.[0-2]-[0-2]:$/ }
		link && /^  (sources|targets) +1 of 1 attached/ { n++ }
		END { exit n != 12 }'
}

# A command that is sent from now on has an answer.
store_serves()
{
	marks=$((marks + 1))
	touch "$store.mark.$marks"
	until_has "$store.load" "^mark $marks: served" 60000
}

store_end()
{
	touch "$store.stop" "$store.end"
	wait $recorder || fail "$store: the clients: exit status $?"
	"$tests/linearizability/check-history" "$store.history" > verdict.err ||
		fail "$store: that is no linearizable history"
	kill "${replicas[@]}"
	wait "${replicas[@]}" || :
	echo "$store: $(grep operations "$store.load"): $(cut -d: -f2 verdict.err)"
}

# ---- Over a network that works -----------------------------------------------

awk 'BEGIN { srand(1); print "k,v,w"
	for (i = 0; i < 20000; i++)
		printf "k%d,%s,%d\n", rand() * 300, i % 19 ? rand() * 100 : "", i }' > rows.csv
registry_start 10.77.9.1
service
settings=() # of the store
join ethernet --inner 200K --outer 300K --selectivity 0.5
aggregate ethernet
store_start ethernet 50 500
sleep "$load_s"
store_serves
store_end

# ---- Over one that loses packets ---------------------------------------------

timeout_ms=2000
settings=(DFI_OFI_TIMEOUT=$timeout_ms)
if ! hosts_lose 20 1; then
	echo "not tried: a network that loses packets, which takes /dev/net/tun"
	exit 0
fi
registry_start 10.77.8.1
store_start lossy 200 2000
join lossy --inner 20K --outer 30K --selectivity 0.5
aggregate lossy
sleep "$load_s"
store_serves

# ---- That one is cut ---------------------------------------------------------

# By the documentation: the timeout and a quarter of it. The rest is for a busy machine.
limit_ms=$((timeout_ms * 5 / 4 + 5000))
parts=()
part() # HOST PROGRAM ARGUMENT...
{
	at "$1" "${settings[@]}" DFI_LOG=info -- "$bin/$2" --run "cut-$2" "${@:3}" \
		> "$2.$1.err" 2>&1 &
	parts+=($!)
}
# Each takes longer than all before.
{
	echo k,v
	seq -f '%.0f,1' 1000000
} > many.csv
part b radix_join --first-node 1
part a radix_join --nodes 2 --local-nodes 1 --inner 6M --outer 6M --no-verify
# They begin to send, the aggregate its rows.
for host in a b; do
	until_has radix_join.$host.err "'cut-radix_join.outer': source . of 2 is attached" 60000
done
part b aggregate --first-process 1
part a aggregate --local-processes 1 'select k, count(*), sum(v) from many.csv group by k'
until_has aggregate.a.err "'cut-aggregate.rows.1': source 0 of 1 is attached" 60000
ip -n "$here" link set lossy down
began=$(now_ms)
for program in radix_join aggregate; do
	for host in a b; do
		until_has $program.$host.err \
			"^$program: .* broke: .*nothing came for $timeout_ms ms" \
			$((limit_ms - ($(now_ms) - began)))
		echo "$program in host $host: told of the cut after at most" \
			"$(($(now_ms) - began)) ms"
	done
done
for pid in "${parts[@]}"; do
	status=0
	wait "$pid" || status=$?
	[ $status -eq 1 ] || fail "a program over a network that was cut ended with $status"
done
store_serves
# The replica that is alone says so, whether it led or not, and so does a client there.
until_has $store.0.err 'replica 0: .*, there is no leader' $limit_ms
began=$(now_ms) status=0
(at a -- "$bin/dfi-kv-client" --cluster "$store" --replicas 3 --timeout 2000 get k) \
	> out 2> client.err || status=$?
took=$(($(now_ms) - began))
[ $status -eq 69 ] || fail "a client that is cut off ends with $status, not 69"
[ $took -lt 15000 ] || fail "a client that is cut off for 2000 ms is told after $took ms"
echo "a client of the store in host a: told after $took ms"
ip -n "$here" link set lossy up
store_end
echo "the programs over TCP passed"
