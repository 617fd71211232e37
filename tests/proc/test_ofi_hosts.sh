#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_ofi_hosts.sh BIN_DIR WORKER LOSSY_LINK: two network namespaces with an Ethernet between
# them stand for two hosts without RDMA. A flow needs the registry's address and key,
# and nothing else; that its tuples are plain text is logged. A network that delays packets
# and loses some changes nothing. When it is cut, both ends fail in time, also where
# nothing is sent; and so does the peer of a process that is stopped. Only root can play
# them.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
# shellcheck source=tests/proc/hosts_help.sh
. "$(dirname "$0")/hosts_help.sh"
bin=$1 worker=$2 lossy_link=$3
hosts_make
ip -n "$here" addr add fd00:77:9::1/64 dev va nodad
ip -n "$there" addr add fd00:77:9::2/64 dev vb nodad

has() # FILE PATTERN
{
	grep -q -- "$2" "$1" || fail "no '$2' in $1: $(cat "$1")"
}

until_has() # FILE PATTERN MS: sets took to how long it took
{
	local start

	start=$(date +%s%3N)
	until grep -q -- "$2" "$1"; do
		[ $(($(date +%s%3N) - start)) -lt "$3" ] ||
			fail "no '$2' after $3 ms in $1: $(cat "$1")"
		sleep 0.02
	done
	took=$(($(date +%s%3N) - start))
}

registry_start 10.77.9.1
export DFI_OPEN_TIMEOUT=20000
export DFI_LOG=info

# Nothing but the registry is set.
in_a "$worker" -r "$DFI_REGISTRY" -f plain -c 1:1 -n 20000 target:0 \
	> "$tmp/plain.target" 2>&1 &
target=$!
in_b "$worker" -r "$DFI_REGISTRY" -f plain -n 20000 source:0 > "$tmp/plain.source" 2>&1 ||
	fail "the source: $(cat "$tmp/plain.source")"
wait $target || fail "the target: $(cat "$tmp/plain.target")"
has "$tmp/plain.source" '^source 0 ended 0 20000'
has "$tmp/plain.source" 'by ofi (provider tcp at 10.77.9.2'
has "$tmp/plain.target" '^target 0 ended 0 20000'
has "$tmp/plain.target" 'tuples travel as plain text'

in_b "$bin/dfi-info" devices > "$tmp/devices" || fail "dfi-info devices: $(cat "$tmp/devices")"
has "$tmp/devices" '^tcp by libfabric, 10.77.9.2 on vb: usable, chosen'
has "$tmp/devices" 'plain text: who is on the path'

# The same over IPv6.
in_a env DFI_OFI_ADDRESS=fd00:77:9::1 "$worker" -r "$DFI_REGISTRY" -f six -c 1:1 \
	-n 20000 target:0 > "$tmp/six.target" 2>&1 &
target=$!
in_b "$worker" -r "$DFI_REGISTRY" -f six -n 20000 source:0 > "$tmp/six.source" 2>&1 ||
	fail "the source: $(cat "$tmp/six.source")"
wait $target || fail "the target: $(cat "$tmp/six.target")"
has "$tmp/six.source" '^source 0 ended 0 20000'
has "$tmp/six.target" 'ofi (provider tcp at fd00:77:9::1'

# 20 ms each way, of 100 packets one is lost.
slow_flows()
{
	in_a "$worker" -r "$DFI_REGISTRY" -f slow -c 2:2 -n 20000 target:0 target:1 \
		> "$tmp/slow.target" 2>&1 &
	target=$!
	in_b "$worker" -r "$DFI_REGISTRY" -f slow -n 20000 source:0 source:1 \
		> "$tmp/slow.source" 2>&1 || fail "the sources: $(cat "$tmp/slow.source")"
	wait $target || fail "the targets: $(cat "$tmp/slow.target")"
	has "$tmp/slow.source" '^source 0 ended 0 20000'
	has "$tmp/slow.source" '^source 1 ended 0 20000'
	has "$tmp/slow.source" 'by ofi (provider tcp at 10.77.8.2'
	# Numbers of an ordered flow are asked for, one round trip each.
	in_a "$worker" -r "$DFI_REGISTRY" -f order -c 2:1 -O -n 200 target:0 \
		> "$tmp/order.target" 2>&1 &
	target=$!
	in_b "$worker" -r "$DFI_REGISTRY" -f order -O -n 200 source:0 source:1 \
		> "$tmp/order.source" 2>&1 || fail "the sources: $(cat "$tmp/order.source")"
	wait $target || fail "the target: $(cat "$tmp/order.target")"
	has "$tmp/order.target" '^target 0 ended 0 400'
}
if hosts_lose 20 1; then
	in_a() { ip netns exec "$here" env DFI_OFI_ADDRESS=10.77.8.1 "$@"; }
	in_b() { ip netns exec "$there" env DFI_OFI_ADDRESS=10.77.8.2 "$@"; }
	slow_flows
	in_a() { ip netns exec "$here" "$@"; }
	in_b() { ip netns exec "$there" "$@"; }
	echo "flows over a network with delay and loss passed"
fi

export DFI_OFI_TIMEOUT=2000
# A quarter more at most, as docs/libfabric.md says: each end looks four times in that
# time. Another second is for the programs that look at the ends' output here; a busy
# machine may be later, but not each time.
least=1500 most=3500 tries=5

# A source that is held after 100 tuples: nothing is sent then. Its stdin is descriptor 9.
held_flow() # FLOW: sets target and source
{
	rm -f "$tmp/go"
	mkfifo "$tmp/go"
	exec 9<> "$tmp/go"
	(exec ip netns exec "$here" "$worker" -r "$DFI_REGISTRY" -f "$1" -c 1:1 -n 1000 \
		target:0 > "$tmp/$1.target" 2>&1 9>&-) &
	target=$!
	(exec ip netns exec "$there" "$worker" -r "$DFI_REGISTRY" -f "$1" -n 1000 -p 100 \
		source:0 < "$tmp/go" > "$tmp/$1.source" 2>&1 9>&-) &
	source=$!
	until_has "$tmp/$1.source" '^source 0 held 100' 20000
}

go_on() # FLOW PATTERN: the held source ends so
{
	echo c >&9
	until_has "$tmp/$1.source" "$2" 10000
	wait $target $source || :
}

# Both ends learn of a cut by themselves: nobody sends, and the source makes no call.
cut() # FLOW: sets target_took and source_took
{
	held_flow "$1"
	ip -n "$here" link set va down
	until_has "$tmp/$1.target" '^target 0 ended -104' 20000
	target_took=$took
	until_has "$tmp/$1.source" 'nothing came for 2000 ms' 20000
	source_took=$((target_took + took))
	has "$tmp/$1.target" 'nothing came for 2000 ms'
	go_on "$1" '^source 0 ended -104'
	ip -n "$here" link set va up
	until in_b "$bin/dfi-info" nodes > /dev/null 2>&1; do
		sleep 0.1
	done
	if [ $target_took -lt $least ] || [ $source_took -lt $least ]; then
		fail "a cut was told after $target_took and $source_took ms"
	fi
}

target_best=20000 source_best=20000
for try in $(seq $tries); do
	cut "cut$try"
	[ $target_took -ge $target_best ] || target_best=$target_took
	[ $source_took -ge $source_best ] || source_best=$source_took
	[ $target_best -gt $most ] || [ $source_best -gt $most ] || break
done
if [ $target_best -gt $most ] || [ $source_best -gt $most ]; then
	fail "a cut was told after $target_best and $source_best ms, not after $most"
fi
echo "a cut without traffic was told after $target_best and $source_best ms"

# A process that is stopped for a shorter time goes on; for longer, it counts as lost, and
# learns of it when it goes on.
held_flow short
kill -STOP $target
sleep 1
kill -CONT $target
go_on short '^source 0 ended 0 1000'
has "$tmp/short.target" '^target 0 ended 0 1000'
held_flow long
kill -STOP $target
until_has "$tmp/long.source" 'nothing came for 2000 ms.* or the process stopped' 20000
kill -CONT $target
until_has "$tmp/long.target" '^target 0 ended -104' 10000
go_on long '^source 0 ended -104'
echo "flows between hosts without RDMA passed"
