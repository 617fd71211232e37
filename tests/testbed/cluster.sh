#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# cluster.sh BUILD_DIR: flows across two and three virtual machines, which boot once. There
# are shuffles, 1:1 and N:M, and ordered replicate flows, N:M. They run with a registry
# that asks for a key, with both MTUs, with both ways of arrival, with lost packets, and
# with a low limit on locked memory. dfi-bench then measures flows between machines and
# says by which way they went.
set -euo pipefail

script=$(realpath "$0")
# shellcheck source=tests/testbed/nodes.sh
. "${script%/*}/nodes.sh"

# ---- In a VM ---------------------------------------------------------------

# Run a worker with this node's endpoints; a file gets their results.
work() # FLOW TUPLES NOTIFY ARGUMENT...
{
	local flow=$1 tuples=$2 notify=$3 status=0

	shift 3
	DFI_LOG=info DFI_VERBS_NOTIFY=$notify tests/proc/worker \
		-f "$flow" -n "$tuples" "$@" \
		> "$SHARED/$flow.$NODE" 2> "$SHARED/$flow.log.$NODE" || status=$?
	grep -v '^dfi: info' "$SHARED/$flow.log.$NODE" >&2 || true
	cat "$SHARED/$flow.$NODE"
	return $status
}

# Run this node's endpoints of a flow: one source on node 1 and one target on node 0, or
# one source and one target on each node. An ordered flow has its sequencer on node 0;
# the sources there take positions in the same way as all others.
run() # FLOW SHAPE TUPLES NOTIFY
{
	local create=()

	case $2.$NODE in
	one.0) work "$1" "$3" "$4" -c 1:1 -g 8192 target:0 ;;
	one.1) work "$1" "$3" "$4" source:0 ;;
	one.*) ;;
	all.*)
		[ "$NODE" != 0 ] || create=(-c "$NODES:$NODES" -g 8192)
		work "$1" "$3" "$4" "${create[@]}" "source:$NODE" "target:$NODE"
		;;
	order.*)
		[ "$NODE" != 0 ] || create=(-O -c "$NODES:$NODES" -g 1024)
		work "$1" "$3" "$4" "${create[@]}" -o "$SHARED/$1.order" \
			"source:$NODE" "target:$NODE"
		;;
	esac
}

# Check that packets of this node were lost, and end the loss.
end_loss()
{
	local n

	n=$(lost)
	echo "$n packets of node $NODE were lost"
	[ "$n" -gt 0 ]
	tc qdisc del dev eth0 root
}

# RDMA's MTU is the next lower power of two.
set_mtu() # MTU
{
	local active

	ip link set dev eth0 mtu "$1"
	active=$(ibv_devinfo -d rxe0 | awk '/active_mtu/ { print $2 }')
	[ "$active" -le "$1" ]
	[ "$((2 * active))" -gt "$1" ] || [ "$active" = 4096 ]
}

node() # NODES LOSS MTU SHAPE:TUPLES:NOTIFY...
{
	local loss=$2 run shape tuples notify

	NODES=$1
	set_mtu "$3"
	shift 3
	[ "$loss" = 0% ] || tc qdisc add dev eth0 root netem loss "$loss"
	use_registry
	export DFI_OPEN_TIMEOUT=30000
	# Endpoints of one host use shared memory.
	unset DFI_TRANSPORT
	for run; do
		IFS=: read -r shape tuples notify <<< "$run"
		run "$shape-$notify" "$shape" "$tuples" "$notify"
	done
	[ "$loss" = 0% ] || end_loss
}

# Node 0 has the sources and prints, node 1 has the targets. With "alone", one node has
# both, and the setting instead of the option chooses the transport.
bench() # COMMAND OPTION...
{
	local role=(--role source --transport verbs)

	use_registry
	export DFI_OPEN_TIMEOUT=30000
	if [ "$NODE" = 1 ]; then
		exec bin/dfi-bench "$1" --role target
	fi
	if [ "$1" = alone ]; then
		unset DFI_REGISTRY
		role=()
		shift
	fi
	exec bin/dfi-bench "$@" "${role[@]}" --repeat 1 --json
}

run_in_node "$@"

# ---- On the host, beside three VMs -----------------------------------------

build=$(realpath "$1")
[ $# -gt 1 ] || drive 3 --timeout 840

# Check how segments crossed machines, by the sources' logs.
check_arrival() # FLOW NOTIFY
{
	local way ways

	case $2 in
	imm) way='immediate data' ;;
	footer) way='footers are polled($|[^,])' ;;
	checksum) way='footers are polled, with checksums' ;;
	esac
	ways=$(grep -h ': source .*GID' "$SHARED/$1".log.*)
	if grep -Ev "$way" <<< "$ways"; then
		echo "$1: that is not by $2"
		return 1
	fi
}

# Check that all endpoints ended well and all tuples arrived.
check_run() # FLOW NODES SHAPE TUPLES NOTIFY
{
	local sources=$2 copies=1 i

	[ "$3" != one ] || sources=1
	[ "$3" != order ] || copies=$2
	[ "$(cat "$SHARED/$1".? | grep -c ' ended 0 ')" = $((2 * sources)) ]
	cat "$SHARED/$1".? |
		awk -v want="$((copies * sources * $4))" -v name="$1" '
		/^target .* ended 0 / { n += $5 }
		END { print name ": " n " tuples of " want; exit n != want }'
	for ((i = 1; i < copies; i++)); do
		cmp "$SHARED/$1.order.0" "$SHARED/$1.order.$i"
	done
	check_arrival "$1" "$5"
}

# Run flows on the first NODES machines.
flows() # DESCRIPTION NODES LOSS MTU "SHAPE:TUPLES:NOTIFY..." [RUN_OPTION...]
{
	local what=$1 nodes=$2 loss=$3 mtu=$4 runs=$5 k pids=() status=0
	local run shape tuples notify

	shift 5
	echo "== $what"
	# The next flows have the same names.
	rm -f "$SHARED"/*-*
	for ((k = 0; k < nodes; k++)); do
		# shellcheck disable=SC2086 # they are several words
		"$testbed" run $k --timeout 400 "$@" -- bash "$script" --node \
			"$build" node "$nodes" "$loss" "$mtu" $runs &
		pids+=($!)
	done
	for k in "${!pids[@]}"; do
		wait "${pids[k]}" || status=$?
	done
	[ $status -eq 0 ] || {
		echo "$what: exit status $status"
		exit 1
	}
	for run in $runs; do
		IFS=: read -r shape tuples notify <<< "$run"
		check_run "$shape-$notify" "$nodes" "$shape" "$tuples" "$notify"
	done
}

# Check that dfi-bench's rows are of flows over RDMA.
check_rows() # COMMAND WORD...
{
	local command=$1 word

	shift
	for word in '"transport": "verbs"' '"device": "rxe0"' \
		'"verified": true' "$@"; do
		grep -q "$word" "$SHARED/rows" || {
			echo "dfi-bench $command does not say $word"
			cat "$SHARED/rows"
			exit 1
		}
	done
	echo "dfi-bench $command: over RDMA"
}

measure() # NOTIFY COMMAND OPTION...
{
	local notify=$1 target

	shift
	"$testbed" run 1 --timeout 400 -- bash "$script" --node "$build" bench "$1" &
	target=$!
	"$testbed" run 0 --timeout 400 -- bash "$script" --node "$build" bench "$@" \
		--api claim --tuple-size 64 --bytes 1M --verify > "$SHARED/rows"
	wait $target
	check_rows "$1" "\"notify\": \"$notify\"" \
		'"requests_per_segment": [0-9]' '"baseline": null'
}

measure_alone() # BASELINE COMMAND OPTION...
{
	"$testbed" run 0 --timeout 400 -- env DFI_TRANSPORT=verbs \
		bash "$script" --node "$build" bench alone "${@:2}" \
		> "$SHARED/rows"
	check_rows "$2" "\"baseline\": $1"
}

start_registry

flows 'two machines, MTU 4096' 2 0% 4200 \
	'one:50000:imm one:50000:footer all:50000:imm all:50000:footer
	all:50000:checksum'
flows 'two machines, 8 MiB of memory may be locked' 2 0% 4200 all:50000:imm \
	--memlock 8192
flows 'three machines' 3 0% 4200 \
	'one:20000:imm all:30000:footer all:30000:imm
	order:20000:imm order:20000:footer'
# Some thousand packets, so that at least one is lost; half of them in a short run.
many=400000
[ -z "${DFI_TEST_SHORT-}" ] || many=200000
flows 'two machines, 1 % of the packets are lost' 2 1% 4200 \
	"one:50000:footer one:50000:checksum all:$many:imm order:50000:imm"
echo "== dfi-bench"
measure imm shuffle
measure datagram replicate --mode multicast --targets 2 --wait block
measure_alone null shuffle --api claim --tuple-size 64 --bytes 1M --wait block
measure_alone '"fetch-add"' sequencer --clients 1 --iterations 1000
flows 'two machines, MTU 1024' 2 0% 1500 'one:20000:footer all:50000:imm'
kill $registry
wait $registry || true
echo "all tuples arrived everywhere"
