#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# cluster.sh BUILD_DIR: shuffle flows across virtual machines: 1:1 and N:M over
# two and three of them, with a registry that only those with its key reach,
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

# Run a worker with this node's endpoints; prints what became of each.
work() # TUPLES ENDS...
{
	local tuples=$1 status=0

	shift
	DFI_LOG=info tests/proc/worker -r "$(cat "$SHARED/address")" -f f \
		-n "$tuples" "$@" 2> "$SHARED/log.$NODE" || status=$?
	grep -v '^dfi: info' "$SHARED/log.$NODE" >&2 || true
	return $status
}

# That its target polled footers, if it was told to.
check_arrival()
{
	[ "${DFI_VERBS_NOTIFY-}" != footer ] ||
		grep -q 'source.*footers are polled' "$SHARED/log.$NODE"
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

# Every node has one source and one target of one flow.
node() # BUILD_DIR TUPLES SEGMENT_SIZE LOSS
{
	cd "$1"
	[ "$4" = 0% ] || tc qdisc add dev eth0 root netem loss "$4"
	export DFI_OPEN_TIMEOUT=30000 DFI_REGISTRY_KEY=/tmp/key
	# What does not cross hosts takes shared memory.
	unset DFI_TRANSPORT
	if [ "$NODE" = 0 ]; then
		registry
		work "$2" -c "$NODES:$NODES" -g "$3" source:0 target:0
	else
		until [ -e "$SHARED/address" ]; do
			sleep 0.1
		done
		cp "$SHARED/key" /tmp/key
		chmod 600 /tmp/key
		work "$2" "source:$NODE" "target:$NODE"
	fi | tee "$SHARED/result.$NODE"
	touch "$SHARED/done.$NODE"
	# The registry ends last.
	for i in $(seq 0 $((NODES - 1))); do
		until [ -e "$SHARED/done.$i" ]; do
			sleep 0.1
		done
	done
	[ "$NODE" != 0 ] || kill "$(cat /tmp/registry.pid)"
	check_arrival
	[ "$4" = 0% ] || check_loss
	# All endpoints ended well, and all tuples arrived.
	[ "$(grep -c ' ended 0 ' "$SHARED/result.$NODE")" = 2 ]
	awk -v want="$((NODES * $2))" '/^target .* ended 0 / { n += $5 }
		END { print n " tuples of " want " arrived"; exit n != want }' \
		"$SHARED"/result.*
}

if [ "${1-}" = --node ]; then
	shift
	node "$@"
	exit
fi

# ---- On the host -----------------------------------------------------------

build=$(realpath "$1")

shuffle() # DESCRIPTION NODES TUPLES SEGMENT_SIZE LOSS [TESTBED_OPTION...]
{
	local what=$1 nodes=$2 tuples=$3 segment=$4 loss=$5

	shift 5
	echo "== $what"
	"$testbed" up "$nodes" --timeout 120 "$@" -- \
		bash "$script" --node "$build" "$tuples" "$segment" "$loss"
}

shuffle 'two machines, MTU 4096' 2 200000 8192 0%
shuffle 'two machines, MTU 1024' 2 100000 8192 0% --mtu 1500
shuffle 'three machines' 3 100000 8192 0%
shuffle 'two machines, 8 MiB of memory may be locked' 2 50000 8192 0% \
	--memlock 8192
# Some thousand packets, so that there is one to lose.
shuffle 'two machines, 1 % of the packets are lost' 2 400000 8192 1%
DFI_VERBS_NOTIFY=footer shuffle 'two machines, footers are polled' \
	2 100000 8192 0%
echo "all tuples arrived everywhere"
