#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# setups.sh BUILD_DIR: between processes of two virtual machines, nothing grows
# by setting flows up and taking them down: no file descriptors, memory, queue
# pairs and memory regions; and a process has as many queue pairs as it has
# sources, and peers' sources that write to it, whatever number of flows ran. And
# dfi-bench measures flows between the machines, and says by which way they went.
set -euo pipefail

script=$(realpath "$0")
testbed=${script%/*}/testbed
port=7000

# Pages that the heap takes for good, by chance; of 900 flows.
noise_kib=256

# ---- On the host -----------------------------------------------------------

if [ "${1-}" != --node ]; then
	"$testbed" up 2 --timeout 400 -- \
		bash "$script" --node "$(realpath "$1")"
	exit
fi

# ---- In a VM ---------------------------------------------------------------

cd "$2"
# shellcheck disable=SC2153 # NODE and ADDRESS_0 are from the testbed
me=$NODE
export DFI_REGISTRY=tcp:$ADDRESS_0:$port DFI_REGISTRY_INSECURE=1
export DFI_OPEN_TIMEOUT=30000
export DFI_RING_MEMORY=1M

# What the kernel has for a process, by the threads that made it.
resources() # qp|mr
{
	rdma resource show "$1" | awk -v threads="$(echo "/proc/$pid/task/"*)" '
		BEGIN { n = split(threads, names, " ")
			for (i = 1; i <= n; i++) {
				sub(".*/", "", names[i]); mine[names[i]] = 1 } }
		{ for (i = 1; i < NF; i++)
			if ($i == "pid" && $(i + 1) in mine) count++ }
		END { print count + 0 }'
}

sample()
{
	local files=("/proc/$pid/fd/"*)

	echo "${#files[@]} $(resources qp) $(resources mr)"
}

memory()
{
	awk '/^RssAnon/ { print $2 }' "/proc/$pid/status"
}

# Samples, until one matches a pattern. What a peer has to answer may take a moment.
await() # WHAT PATTERN
{
	local deadline=$((SECONDS + 20)) is

	# shellcheck disable=SC2053 # it is a pattern
	until is=$(sample) && [[ $is == $2 ]]; do
		if [ $SECONDS -ge $deadline ]; then
			echo "$1: '$is' files, queue pairs and regions, not '$2'"
			exit 1
		fi
		sleep 0.2
	done
	echo "$1: $is files, queue pairs and regions, $(memory) KiB"
}

# Until two samples are the same.
settle()
{
	local before='' is

	until is=$(sample) && [ "$is" = "$before" ]; do
		before=$is
		sleep 0.2
	done
	echo "$is"
}

start() # ARGUMENT...
{
	rm -f /tmp/told
	mkfifo /tmp/told
	exec {told}<> /tmp/told
	tests/proc/setups "$me" 2 "$@" <&"$told" > /tmp/says &
	pid=$!
}

held() # WHEN
{
	until grep -q "^$1\$" /tmp/says; do
		kill -0 $pid
		sleep 0.1
	done
}

go_on()
{
	echo >&"$told"
}

# A process that closes its context takes its peer's connections along, so both
# have been looked at before.
meet() # NAME
{
	local k

	echo here > "$SHARED/$1.$me"
	for k in 0 1; do
		until [ -s "$SHARED/$1.$k" ]; do
			sleep 0.1
		done
	done
}

# The counts are of both processes together.
finish() # TUPLES
{
	local k

	go_on
	wait $pid
	exec {told}>&-
	awk -F: '/^tuples/ { print $2 }' /tmp/says > "$SHARED/tuples.$1.$me"
	for k in 0 1; do
		until [ -s "$SHARED/tuples.$1.$k" ]; do
			sleep 0.1
		done
	done
	cat "$SHARED/tuples.$1".? | awk -v want="$1" '{ n += $1 }
		END { print n " tuples of " want; exit n != want }'
}

# That rows of dfi-bench, which it printed into /tmp/row, went over RDMA.
check_row() # COMMAND WORD...
{
	local command=$1 word

	shift
	for word in '"transport": "verbs"' "\"device\": \"$DFI_TEST_DEVICE\"" \
		'"verified": true' "$@"; do
		grep -q "$word" /tmp/row || {
			echo "dfi-bench $command does not say $word"
			cat /tmp/row
			exit 1
		}
	done
	echo "dfi-bench $command: over RDMA"
}

# The sources are on node 0, which prints; the targets on node 1.
bench() # NOTIFY COMMAND OPTION...
{
	local notify=$1

	shift
	meet "bench.$1" # the last one's flows are gone
	if [ "$me" = 1 ]; then
		bin/dfi-bench "$1" --role target
		return
	fi
	bin/dfi-bench "$@" --role source --transport verbs --api claim \
		--tuple-size 64 --bytes 1M --repeat 1 --verify --json > /tmp/row
	check_row "$1" "\"notify\": \"$notify\"" \
		'"requests_per_segment": [0-9]' '"baseline": null'
}

# By the setting instead of the option, and on one machine.
bench_here() # COMMAND OPTION...
{
	DFI_TRANSPORT=verbs bin/dfi-bench "$@" --repeat 1 --json > /tmp/row
}

if [ "$me" = 0 ]; then
	bin/dfi-registry --listen "tcp:$NODE_ADDRESS:$port" --insecure &
	registry=$!
fi
until (: < "/dev/tcp/$ADDRESS_0/$port") 2> /dev/null; do
	sleep 0.1
done

# Each source has a queue pair to the other process; so has each of its.
start 4 4 64 open:1 open:64 after:64 end:0
held open:1
await "4 sources and 4 targets" '* 8 *'
go_on
held open:64
await "the 64th such flow" '* 8 *'
go_on
held after:64
await "after it" '* 8 *'
meet sampled-64
go_on
held end:0
await "without a context" '* 0 0'
finish $((2 * 4 * 64 * 20))

start 1 1 1000 after:100 after:1000 end:0
held after:100
before=$(settle)
before_kib=$(memory)
await "after 100 flows" "$before"
go_on
held after:1000
await "after 1000 flows" "$before"
grown=$(($(memory) - before_kib))
[ $grown -le $noise_kib ] || {
	echo "memory has grown by $grown KiB"
	exit 1
}
meet sampled-1000
go_on
held end:0
await "without a context" '* 0 0'
finish $((2 * 1000 * 20))

bench imm shuffle
bench datagram replicate --mode multicast --targets 2 --wait block
if [ "$me" = 0 ]; then
	bench_here shuffle --api claim --tuple-size 64 --bytes 1M --wait block
	check_row shuffle '"baseline": null'
	bench_here sequencer --clients 1 --iterations 1000
	check_row sequencer '"baseline": "fetch-add"'
fi
[ "$me" != 0 ] || kill "$registry"
