#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# chaos.sh BUILD_DIR [RUNS [SEED]]: random flows between three virtual machines
# of which one is powered off, cut from the network for good or for a moment, or
# has its process killed, at a random moment. All that survives must end in time:
# with what it was owed if the network came back, else with an error that names
# a process that was lost, and never as if all had come. Some runs of processes
# in one machine, over verbs, come first (tests/chaos), for 4 s for each of RUNS.
# Prints "runs: N violations: M" last. RUNS is 4 by default; each takes some
# seconds.
set -euo pipefail

script=$(realpath "$0")
testbed=${script%/*}/testbed
port=7000

# How long a process may be silent, and the retries of a queue pair: 6 of about
# 537 ms. Three machines share a few processors: one that starts may get none for
# seconds.
lease_ms=12000
retry_ms=3300
# How much a loaded machine may add, and the open timeout of who was attaching.
slack_ms=30000
# Many boots would take longer than what they are for.
batch=5

# ---- In a VM ---------------------------------------------------------------

registry()
{
	bin/dfi-registry --listen "tcp:$NODE_ADDRESS:$port" \
		--key "$SHARED/key" --print-address > "$SHARED/address.new"
}

# A process with endpoints. Its lines, its number and its exit status are in
# files of this name.
worker() # NAME ARGUMENT...
{
	local name=$1 status=0 key

	shift
	key=$(mktemp)
	cp "$SHARED/key" "$key"
	export DFI_REGISTRY_KEY=$key DFI_OPEN_TIMEOUT=10000
	tests/proc/worker -r "$(cat "$SHARED/address")" -f "$name" "$@" \
		> "$SHARED/$name.$NODE" 2> "$SHARED/$name.log.$NODE" &
	echo $! > "$SHARED/$name.pid.$NODE"
	{ wait $! || status=$?; } 2> /dev/null
	echo $status > "$SHARED/$name.status.$NODE"
}

# Runs as on the host, but without multicast, which has a test of its own, and
# with fewer tuples: the machine is slow.
processes() # SECONDS SEED
{
	export DFI_TEST_CHAOS_KIND=unicast DFI_TRANSPORT=verbs
	tests/chaos/chaos --seconds "$1" --seed "$2" \
		--limit 15000 --patience 60000 --open-timeout 6000 --volume 5
}

if [ "${1-}" = --node ]; then
	cd "$2"
	shift 2
	"$@"
	exit
fi

# ---- On the host, beside three VMs -----------------------------------------

now_ms()
{
	date +%s%3N
}

violation()
{
	echo "VIOLATION $name ($plan): $*"
	tail -n +1 "$SHARED/$name".*
	violations=$((violations + 1))
}

on() # K COMMAND...
{
	local k=$1

	shift
	"$testbed" run "$k" -- bash "$script" --node "$build" "$@"
}

# Whether COMMAND succeeds within MS.
within() # MS COMMAND...
{
	local deadline=$(($(now_ms) + $1))

	shift
	until "$@"; do
		[ "$(now_ms)" -le $deadline ] || return 1
		sleep 0.05
	done
}

# 0 to N - 1, in $drawn, so that the generator's state is kept.
draw() # N
{
	drawn=$((RANDOM % $1))
}

# Endpoints for nodes 0 to 2, none of which is left without.
make_topology()
{
	local i node

	draw 3
	n_sources=$((drawn + 1))
	draw 3
	n_targets=$((drawn + 1))
	ends=("" "" "")
	for ((i = 0; i < n_sources + n_targets; i++)); do
		draw 3
		node=$drawn
		[ $i -ge 2 ] || node=$(((victim + i) % 3))
		if [ $i -lt $n_sources ]; then
			ends[node]+=" source:$i"
		else
			ends[node]+=" target:$((i - n_sources))"
		fi
	done
	nodes=()
	for ((i = 0; i < 3; i++)); do
		[ -z "${ends[i]}" ] || nodes+=("$i")
	done
}

start_workers()
{
	local k create=(-P -c "$n_sources:$n_targets")

	for k in "${nodes[@]}"; do
		# shellcheck disable=SC2086 # several words
		on "$k" worker "$name" "${create[@]}" -l $lease_ms \
			-n "$tuples" ${ends[k]} &
		create=()
	done
}

all_open()
{
	local k

	for k in "${nodes[@]}"; do
		[ "$(cat "$SHARED/$name.$k" 2> /dev/null |
			grep -cE ' (open|ended)( |$)')" -ge \
			"$(wc -w <<< "${ends[k]}")" ] || return 1
	done
}

survivors_ended()
{
	local k

	for k in "${nodes[@]}"; do
		[ "$k" = "$lost" ] || [ -s "$SHARED/$name.status.$k" ] ||
			return 1
	done
}

kill_worker()
{
	"$testbed" run "$victim" -- bash -c \
		"kill -KILL \$(cat '$SHARED/$name.pid.$victim')" ||
		true # it may not have begun
}

strike()
{
	lost=$victim
	case $kind in
	kill) kill_worker ;;
	off) "$testbed" kill "$victim" ;;
	cut | unplug)
		# It survives, and is to be told as well.
		lost=
		"$testbed" net "$victim" "$kind"
		;;
	blink)
		lost=
		"$testbed" net "$victim" cut
		sleep "0.$((blink_ms / 100))"
		"$testbed" net "$victim" heal
		;;
	esac
}

# Each endpoint of a flow that was cut short says so.
check_lost()
{
	local k line pids

	pids=$(cat "$SHARED/$name".pid.* | paste -sd '|')
	for k in "${nodes[@]}"; do
		[ "$k" != "$lost" ] || continue
		while read -r line; do
			case $line in
			*" ended -104 "* | *" ended -110 "*": no answer from "*)
				grep -qE "pid ($pids)\)" <<< "$line" ||
					violation "names nobody: $line"
				;;
			*" ended -125 "* | *" ended -110 "*waiting*) ;;
			*" ended -107 "* | \
				*" ended -110 "*": no answer in time")
				# Its machine was cut off before it had all.
				[ "$k" = "$victim" ] || violation "why: $line"
				;;
			*" ended -110 "*"nobody has created it"*)
				# Who was to create it was lost before, or who
				# looked for it was cut off from the registry.
				[ "${nodes[0]}" = "$victim" ] ||
					[ "$k" = "$victim" ] ||
					violation "why: $line"
				;;
			*) violation "not this end: $line" ;;
			esac
		done < <(grep ' ended ' "$SHARED/$name.$k" || true)
	done
}

# Each endpoint has its tuples.
check_whole()
{
	local got

	if cat "$SHARED/$name".[0-2] | grep -q ' ended -'; then
		violation "a network that came back was taken for lost"
	fi
	got=$(cat "$SHARED/$name".[0-2] |
		awk '/^target .* ended/ { n += $5 } END { print n + 0 }')
	[ "$got" = $((tuples * n_sources)) ] || violation "$got tuples came"
}

check()
{
	local k status

	for k in "${nodes[@]}"; do
		[ "$k" != "$lost" ] || continue
		status=$(cat "$SHARED/$name.status.$k" 2> /dev/null || true)
		# 1: a tuple was wrong, or the registry could not be reached.
		if [ "$status" = 1 ] && [ "$kind" != blink ] &&
			[ ! -s "$SHARED/$name.$k" ]; then
			continue
		fi
		[ "$status" = 0 ] ||
			violation "node $k: exit status '$status'"
	done
	if [ "$kind" = blink ]; then
		check_whole
	else
		check_lost
	fi
}

run_once() # NUMBER KIND
{
	local begin limit

	name=chaos-$1
	kind=$2
	draw 2
	victim=$((drawn + 1)) # node 0 has the registry
	make_topology
	draw 8
	blink_ms=$(((drawn + 1) * 100))
	tuples=500000
	[ "$kind" = blink ] || tuples=2000000000
	limit=$((lease_ms + retry_ms + slack_ms))
	[ "$kind" != blink ] || limit=120000
	plan="$kind node $victim; node 0:${ends[0]}; 1:${ends[1]}; 2:${ends[2]}"
	start_workers
	# Some are struck while they attach, but then they exist.
	draw 4
	if [ "$kind" = blink ] || [ $drawn -gt 0 ]; then
		within 90000 all_open || violation "they did not open"
	else
		within 30000 test -s "$SHARED/$name.pid.$victim" || true
	fi
	draw 10
	sleep 0.$drawn
	begin=$(now_ms)
	strike
	within $limit survivors_ended ||
		violation "after $(($(now_ms) - begin)) ms somebody goes on"
	echo "$plan: $(($(now_ms) - begin)) ms"
	for k in "${nodes[@]}"; do
		if [ ! -s "$SHARED/$name.status.$k" ] && [ "$k" != "$lost" ]; then
			"$testbed" run "$k" -- bash -c \
				"kill -KILL \$(cat '$SHARED/$name.pid.$k')"
		fi
	done
	[ "$kind" = kill ] || [ "$kind" = off ] || "$testbed" net "$victim" heal
	check
	[ "$kind" = off ] || wait_for_workers
	rm -f "$SHARED/$name".*
}

wait_for_workers()
{
	local job

	for job in $(jobs -p); do
		[ "$job" = $registry ] || wait "$job" || true
	done
}

start_registry()
{
	(umask 077 && "$build/bin/dfi-registry" keygen "$SHARED/key")
	on 0 registry &
	registry=$!
	within 20000 test -s "$SHARED/address.new"
	mv "$SHARED/address.new" "$SHARED/address"
}

# Runs FIRST to LAST; the last one of a full batch takes a machine away.
run_batch() # FIRST LAST SEED
{
	local i kinds=(cut blink kill unplug)

	RANDOM=$(($3 + $1))
	violations=0
	start_registry
	for ((i = $1; i <= $2; i++)); do
		draw 4
		if [ $i = "$2" ]; then
			run_once $i off
		else
			run_once $i "${kinds[drawn]}"
		fi
	done
	echo $violations > "$results/$1"
	kill $registry
	wait $registry 2> /dev/null || true
}

build=$(realpath "$1")
if [ "${2-}" = --batch ]; then
	results=$3
	run_batch "$4" "$5" "$6"
	exit
fi

# ---- On the host -----------------------------------------------------------

runs=${2:-4}
seed=${3:-$(date +%s)}
seed=$((seed % 10000)) # a generator of 15 bits
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
echo "seed $seed"
total=0

"$testbed" up 1 --memory 3000 --cpus 2 --timeout $((runs * 4 + 300)) -- \
	bash "$script" --node "$build" processes $((runs * 4)) "$seed" |
	tee "$results/processes" || true
counts=$(tail -n 1 "$results/processes")
[[ $counts =~ ^runs:\ ([0-9]+)\ violations:\ ([0-9]+)$ ]] || {
	echo "no runs in one machine: $counts"
	exit 1
}
processes=${BASH_REMATCH[1]}
total=${BASH_REMATCH[2]}

for ((first = 1; first <= runs; first += batch)); do
	last=$((first + batch - 1))
	[ $last -le "$runs" ] || last=$runs
	"$testbed" drive 3 --timeout 600 -- bash "$script" "$build" --batch \
		"$results" $first $last "$seed" || true
	# A batch that did not come to its end is one.
	total=$((total + $(cat "$results/$first" 2> /dev/null || echo 1)))
done
echo "runs: $((runs + processes)) violations: $total"
[ $total -eq 0 ]
