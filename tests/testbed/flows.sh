#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# flows.sh BUILD_DIR: the tests of flows and of processes over verbs, in one
# virtual machine with soft-RoCE, or with DFI_TEST_DEVICE on this host's device;
# once for each way in which a target learns of segments.
set -euo pipefail

script=$(realpath "$0")

if [ "${1-}" != --inside ]; then
	build=$(realpath "$1")
	exec "${script%/*}/testbed" up 1 --memory 3072 --timeout 840 -- \
		bash "$script" --inside "$build"
fi

cd "$2"
export DFI_TRANSPORT=verbs DFI_OPEN_TIMEOUT=20000
# Hundreds of flows on an emulated processor, which has no caches to use.
export DFI_RING_MEMORY=1M
status=0

# Packets of all RDMA devices, where they count them: soft-RoCE does.
packets()
{
	cat /sys/class/infiniband/*/ports/*/hw_counters/sent_pkts \
		2> /dev/null | awk '{ n += $1 } END { print n + 0 }'
}

before=$(packets)

run() # TEST
{
	echo "== $1, DFI_VERBS_NOTIFY=$DFI_VERBS_NOTIFY"
	timeout 300 "tests/$1" -j1 || status=1
}

for DFI_VERBS_NOTIFY in imm footer; do
	export DFI_VERBS_NOTIFY
	for test in test_api test_counters test_errors test_handles test_leaving \
		test_linger test_moving test_polling test_shuffle test_transport \
		test_verify; do
		run "flow/$test"
	done
	DFI_TEST_SEEDS=50 run flow/test_property
	run proc/test_processes
	run proc/test_stalls
done
# What threads do to each other, and whether anything is left behind.
echo "== stress/stress_lifecycle"
timeout 300 tests/stress/stress_lifecycle || status=1
# Hundreds of flows, and what they test happens before a segment is sent: once.
# (Barriers and copies are not here: they are the same over any transport.)
DFI_VERBS_NOTIFY=auto run flow/test_partition
DFI_VERBS_NOTIFY=auto run flow/test_estimate
DFI_VERBS_NOTIFY=auto run flow/test_registry_tcp
DFI_VERBS_NOTIFY=auto run flow/test_hygiene
DFI_VERBS_NOTIFY=auto run proc/test_messages

if [ "$(ls /sys/class/infiniband/*/ports/*/hw_counters/sent_pkts \
	2> /dev/null)" ]; then
	sent=$(($(packets) - before))
	echo "$sent packets were sent"
	# Hundreds of thousands of tuples did not go another way.
	[ $sent -gt 10000 ] || status=1
fi
exit $status
