#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# cluster.sh BUILD_DIR: flows across virtual machines: shuffles, 1:1 and N:M, and
# ordered replicate flows, N:M, over two and three of them, with a registry that only those with its key reach,
# with both MTUs and both ways of arrival, with lost packets, and with little
# memory that may be locked.
set -euo pipefail

script=$(realpath "$0")
testbed=${script%/*}/testbed
port=7000

# ---- In a VM ---------------------------------------------------------------

registry()
{
	(umask 077 && bin/dfi-registry keygen "$SHARED/key")
	cp "$SHARED/key" /tmp/key
	chmod 600 /tmp/key
	bin/dfi-registry --listen "tcp:$NODE_ADDRESS:$port" --key /tmp/key \
		--print-address > "$SHARED/address.new" &
	echo $! > /tmp/registry.pid
	until [ -s "$SHARED/address.new" ]; do
		kill -0 $!
		sleep 0.1
	done
	mv "$SHARED/address.new" "$SHARED/address"
}

# Run a worker with this node's endpoints; what became of each is in a file.
work() # FLOW TUPLES NOTIFY ARGUMENT...
{
	local flow=$1 tuples=$2 notify=$3 status=0

	shift 3
	DFI_LOG=info DFI_VERBS_NOTIFY=$notify tests/proc/worker \
		-r "$(cat "$SHARED/address")" -f "$flow" -n "$tuples" "$@" \
		> "$SHARED/$flow.$NODE" 2> "$SHARED/$flow.log.$NODE" || status=$?
	grep -v '^dfi: info' "$SHARED/$flow.log.$NODE" >&2 || true
	cat "$SHARED/$flow.$NODE"
	return $status
}

# The endpoints of this node in a flow: one from node 1 to node 0, or one of each
# kind on all nodes. In the ordered one, whose sequencer is on node 0, the sources
# there take their places as all others do.
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

# How segments that crossed machines arrived, by what the sources say.
check_arrival() # FLOW NOTIFY
{
	local way='immediate data' ways

	[ "$2" = imm ] || way='footers are polled'
	ways=$(grep -h ': source .*GID' "$SHARED/$1".log.*)
	if grep -v "$way" <<< "$ways"; then
		echo "$1: that is not by $2"
		return 1
	fi
}

# All endpoints ended well, and all tuples arrived.
check_run() # FLOW SHAPE TUPLES NOTIFY
{
	local sources=$NODES copies=1 i

	[ "$2" != one ] || sources=1
	[ "$2" != order ] || copies=$NODES
	[ "$(cat "$SHARED/$1".? | grep -c ' ended 0 ')" = $((2 * sources)) ]
	cat "$SHARED/$1".? |
		awk -v want="$((copies * sources * $3))" -v name="$1" '
		/^target .* ended 0 / { n += $5 }
		END { print name ": " n " tuples of " want; exit n != want }'
	for ((i = 1; i < copies; i++)); do
		cmp "$SHARED/$1.order.0" "$SHARED/$1.order.$i"
	done
	check_arrival "$1" "$4"
}

# That packets this node has sent were lost.
check_loss()
{
	local lost

	lost=$(tc -s qdisc show dev eth0 |
		sed -n '/netem/,$s/.*(dropped \([0-9]*\),.*/\1/p')
	echo "$lost packets of node $NODE were lost"
	[ "$lost" -gt 0 ]
}

for_each_run() # FUNCTION SHAPE:TUPLES:NOTIFY...
{
	local function=$1 run shape tuples notify

	shift
	for run; do
		IFS=: read -r shape tuples notify <<< "$run"
		$function "$shape-$notify" "$shape" "$tuples" "$notify"
	done
}

node() # BUILD_DIR LOSS SHAPE:TUPLES:NOTIFY...
{
	local loss=$2 i

	cd "$1"
	shift 2
	[ "$loss" = 0% ] || tc qdisc add dev eth0 root netem loss "$loss"
	export DFI_OPEN_TIMEOUT=30000 DFI_REGISTRY_KEY=/tmp/key
	# What does not cross hosts takes shared memory.
	unset DFI_TRANSPORT
	if [ "$NODE" = 0 ]; then
		registry
	else
		until [ -e "$SHARED/address" ]; do
			sleep 0.1
		done
		cp "$SHARED/key" /tmp/key
		chmod 600 /tmp/key
	fi
	for_each_run run "$@"
	touch "$SHARED/done.$NODE"
	# The registry ends last.
	for i in $(seq 0 $((NODES - 1))); do
		until [ -e "$SHARED/done.$i" ]; do
			sleep 0.1
		done
	done
	[ "$NODE" != 0 ] || kill "$(cat /tmp/registry.pid)"
	[ "$loss" = 0% ] || check_loss
	[ "$NODE" != 0 ] || for_each_run check_run "$@"
}

if [ "${1-}" = --node ]; then
	shift
	node "$@"
	exit
fi

# ---- On the host -----------------------------------------------------------

build=$(realpath "$1")

flows() # DESCRIPTION NODES LOSS "SHAPE:TUPLES:NOTIFY..." [TESTBED_OPTION...]
{
	local what=$1 nodes=$2 loss=$3 runs=$4

	shift 4
	echo "== $what"
	# shellcheck disable=SC2086 # they are several words
	"$testbed" up "$nodes" --timeout 120 "$@" -- \
		bash "$script" --node "$build" "$loss" $runs
}

flows 'two machines, MTU 4096' 2 0% \
	'one:50000:imm one:50000:footer all:50000:imm all:50000:footer'
flows 'two machines, MTU 1024' 2 0% 'one:20000:footer all:50000:imm' \
	--mtu 1500
flows 'three machines' 3 0% \
	'one:20000:imm all:30000:footer all:30000:imm
	order:20000:imm order:20000:footer'
flows 'two machines, 8 MiB of memory may be locked' 2 0% all:50000:imm \
	--memlock 8192
# Some thousand packets, so that there is one to lose.
flows 'two machines, 1 % of the packets are lost' 2 1% \
	'one:50000:footer all:400000:imm order:50000:imm'
echo "all tuples arrived everywhere"
