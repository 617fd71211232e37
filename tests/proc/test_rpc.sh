#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_rpc.sh BIN_DIR [JOINS [KIB]]: the example rpc. Clients that are killed or stopped harm
# nobody, a server that comes back goes on, and JOINS (200) joins of up to 64 clients at
# once, some of which are killed, lose no request and leave nothing behind, but for KIB (8192)
# of memory in the server and in the registry.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
export LC_ALL=C

bin=$1
n_joins=${2:-200}
growth=${3:-8192}
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT
cd "$tmp"
export DFI_REGISTRY=unix:@test-rpc-$$
: > err

start_server()
{
	rm -f server.out
	"$bin/rpc-server" > server.out 2>> err &
	server=$!
	await server.out
}

client() # ARGUMENT...
{
	timeout $wait_limit "$bin/rpc-client" "$@" 2>> err
}

attached() # WORD PATTERN: of the first flow that matches
{
	"$bin/dfi-info" flows 2> /dev/null |
		awk -v flow="$2:" -v word="$1" '
			/^[^ ]/ { in_flow = $1 == flow }
			in_flow && $1 == word { print $2 }'
}

end() # PID...
{
	kill -KILL "$@" || fail "a process has ended by itself"
	wait "$@" 2> /dev/null || :
}

await_clients() # NUMBER: that many have a seat of both flows
{
	local deadline=$((SECONDS + 60))

	until [ "$(attached sources rpc.requests)" = "$1" ] &&
		[ "$(attached targets rpc.replies)" = "$1" ]; do
		[ $SECONDS -lt $deadline ] || fail "there are not $1 clients"
		sleep 0.05
	done
}

descriptors() # PID
{
	find "/proc/$1/fd" -mindepth 1 2> /dev/null | wc -l
}

resident() # PID: KiB
{
	awk '$1 == "VmRSS:" { print $2 }' "/proc/$1/status"
}

"$bin/dfi-registry" --print-address --listen "$DFI_REGISTRY" > registry.out 2>> err &
registry=$!
await registry.out
start_server
status=0
client --help > client.out || status=$?
[ $status -eq 64 ] || fail "a client with a wrong argument ends with $status"

# One client is stopped and two are killed while others are at work.
"$bin/rpc-client" 1000000 1 1 > stopped.out 2>> err &
stopped=$!
for i in 0 1; do
	"$bin/rpc-client" 1000000 1 1 > victim$i.out 2>> err &
	victims[i]=$!
done
await_clients 3
kill -STOP $stopped
for i in 0 1 2 3; do
	client 100 5 1 > client$i.out &
	clients[i]=$!
done
end "${victims[@]}"
for i in 0 1 2 3; do
	wait "${clients[i]}" || fail "client $i: $(< client$i.out)"
	grep -qx '5 visits, 500 replies, 0 timed out' client$i.out ||
		fail "client $i: $(< client$i.out)"
done
end $stopped
await_clients 0

# A server that crashed and comes back finds the clients that wait for it.
end $server
client 10 > client0.out &
late=$!
start_server
wait $late || fail "a client that came before the server: $(< client0.out)"

# Each of 64 guests joins ten times in a process, and now and then a client vanishes.
guest() # JOINS
{
	local left

	for ((left = $1; left > 0; left -= 10)); do
		client 3 $((left < 10 ? left : 10)) || exit 1
		[ $((RANDOM % 4)) -gt 0 ] ||
			{ timeout -s KILL 0.2 "$bin/rpc-client" 1000000 || :; } > /dev/null 2>&1
	done
}

all_guests() # JOINS
{
	local i n=$(($1 < 64 ? $1 : 64)) guests=()

	for ((i = 0; i < n; i++)); do
		guest $((($1 + i) / n)) > guest$i.out 2>> err &
		guests+=($!)
	done
	for ((i = 0; i < n; i++)); do
		wait "${guests[i]}" || fail "guest $i: $(tail -n 1 guest$i.out)"
	done
	await_clients 0
}

all_guests 64 # so that the server has had all seats
files=$(descriptors $server)
registry_files=$(descriptors $registry)
memory=$(resident $server) && registry_memory=$(resident $registry)
all_guests "$n_joins"
[ "$(descriptors $server)" -le $((files + 8)) ] ||
	fail "the server had $files descriptors, and now $(descriptors $server)"
[ "$(descriptors $registry)" -le $((registry_files + 8)) ] ||
	fail "the registry had $registry_files descriptors, and now $(descriptors $registry)"
[ "$(resident $server)" -le $((memory + growth)) ] ||
	fail "the server had $memory KiB, and now $(resident $server)"
[ "$(resident $registry)" -le $((registry_memory + growth)) ] ||
	fail "the registry had $registry_memory KiB, and now $(resident $registry)"
echo "server: descriptors $files -> $(descriptors $server)," \
	"memory $memory -> $(resident $server) KiB;" \
	"registry: descriptors $registry_files -> $(descriptors $registry)," \
	"memory $registry_memory -> $(resident $registry) KiB"

kill -TERM $server
wait $server || fail "the server did not end cleanly"
grep -q '^[0-9]* requests$' server.out || fail "the server said $(< server.out)"
"$bin/dfi-info" flows | grep -q '^no flows' || fail "there are flows: $("$bin/dfi-info" flows)"
