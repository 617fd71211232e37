#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_join_machines.sh BIN_DIR: the radix join in several invocations, as on several
# machines, with one registry. Answers are right. If an invocation is missing or dies, all
# others soon have an error that names it. (tests/testbed/join.sh runs it between machines.)
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"

bin=$1
join=$bin/radix_join
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT
cd "$tmp"
n_checks=0
n_runs=0
started=()

fail() # TEXT...
{
	echo "FAILED: $*"
	tail -n +1 ./*.err ./*.json 2> /dev/null || true
	exit 1
}

member() # NAME FILE
{
	sed -n "s/^  \"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$2"
}

# Prints the names of all members of the JSON, on any level.
members() # FILE
{
	sed -n 's/^ *\("[a-z_]*"\):.*/\1/p' "$1" | sort -u
}

start_registry() # ADDRESS [OPTION...]
{
	rm -f address
	"$bin/dfi-registry" --listen "$@" --print-address > address &
	registry=$!
	await address
	DFI_REGISTRY=$(cat address)
	export DFI_REGISTRY
}

stop_registry()
{
	kill $registry
	wait $registry || fail "dfi-registry: exit status $?"
}

# Start the first machine of a new run, and then another.
first() # ARGUMENT...
{
	run=run-$BASHPID-$((n_runs += 1))
	rm -f ./*.err ./*.json
	timeout $wait_limit "$join" --run $run --json "$@" > first.json 2> first.err &
	first=$!
}

other() # FIRST_NODE ARGUMENT...
{
	local node=$1
	shift
	timeout $wait_limit "$join" --run "$run" --first-node "$node" "$@" \
		> "$node.out" 2> "$node.err" &
	other=$!
}

# Check that an invocation ends in time with this status and a text that matches.
ends() # NAME PID STATUS [PATTERN]
{
	local ret=0
	wait "$2" || ret=$?
	[ $ret -eq "$3" ] || fail "$run: $1 ended with $ret, not $3"
	grep -qE -- "${4-}" "$1.err" || [ $# -lt 4 ] ||
		fail "$run: stderr of $1 doesn't match '$4'"
	n_checks=$((n_checks + 1))
}

# Check the same after a process was killed: status 1 and such a text. An invocation that
# had all it needed may end well, and is not counted.
suffers() # NAME PID PATTERN
{
	local ret=0
	wait "$2" || ret=$?
	[ $ret -ne 0 ] || return 0
	[ $ret -eq 1 ] || fail "$run: $1 ended with $ret, not 1"
	grep -qE -- "$3" "$1.err" ||
		fail "$run: stderr of $1 doesn't match '$3'"
	n_checks=$((n_checks + 1))
}

# Run a join by itself that must fail, with a text that matches a pattern.
refuse() # STATUS PATTERN ARGUMENT...
{
	local status=$1 pattern=$2 ret=0
	shift 2
	timeout $wait_limit "$join" "$@" > out 2> refuse.err || ret=$?
	[ "$ret" -eq "$status" ] || fail "$*: exit status $ret, not $status"
	grep -qE -- "$pattern" refuse.err ||
		fail "$*: stderr doesn't match '$pattern'"
	n_checks=$((n_checks + 1))
}

# Start a command in its own folder, beside others: most of the time they wait.
start() # COMMAND...
{
	local folder=${*// /-}

	mkdir "$folder"
	(
		cd "$folder"
		n_checks=0 n_runs=0
		"$@"
		echo "$n_checks $n_runs" > counts
	) > "$folder/log" 2>&1 &
	started+=("$!:$folder")
}

# Check the ends of the commands of start().
finish()
{
	local job checks runs
	for job in "${started[@]}"; do
		if ! wait "${job%%:*}"; then
			cat "${job#*:}/log"
			fail "${job#*:}"
		fi
		read -r checks runs < "${job#*:}/counts"
		n_checks=$((n_checks + checks)) n_runs=$((n_runs + runs))
	done
	started=()
}

verified() # MATCHES
{
	[ "$(member verified first.json)" = true ] || fail "$run: not verified"
	[ "$(member matches first.json)" = "$1" ] ||
		fail "$run: $(member matches first.json) matches, not $1"
}

# --- Right answers -----------------------------------------------------------

# As one invocation of as many nodes, which makes its own registry.
same() # MATCHES ARGUMENT...
{
	local matches=$1 one two
	shift
	timeout $wait_limit "$join" --json --nodes 3 "$@" > one
	first --nodes 3 --local-nodes 2 "$@"
	other 2
	ends 2 $other 0
	ends first $first 0
	verified "$matches"
	[ "$(members one)" = "$(members first.json)" ] ||
		fail "$run: the report has other members"
	one=$(member checksum one)
	two=$(member checksum first.json)
	[ "$one" = "$two" ] || fail "$run: checksum $two, not $one"
	[ ! -s 2.out ] || fail "$run: output of the other machine: $(cat 2.out)"
}

start_registry "unix:$tmp/registry"
same 102400 --inner 200K --outer 100K
same 76800 --inner 200K --outer 300K --selectivity 0.25 --zipf 0.9 --seed 3
same 50000 --inner 1000 --outer 50000 --threads 2 --loopback --radix-bits 5
same 0 --inner 0 --outer 0 --no-pin

# Three, of which the first comes last; and another run at the same time.
run=late
other 3 --registry "$DFI_REGISTRY"
three=$other
other 1 --local-nodes 2 --pin
one=$other
timeout $wait_limit "$join" --nodes 2 --run early --registry "$DFI_REGISTRY" \
	--inner 300K --outer 300K > early.out 2>&1 &
early=$!
timeout $wait_limit "$join" --run late --nodes 4 --local-nodes 1 --inner 50K --json \
	--outer 70K --registry "$DFI_REGISTRY" > first.json 2> first.err
ends 3 $three 0
ends 1 $one 0
verified $((70 * 1024))
wait $early || fail "the other run: $(cat early.out)"
grep -q "verified: true" early.out || fail "the other run is not verified"
stop_registry

# With a key, by TCP.
(umask 077 && "$bin/dfi-registry" keygen key)
export DFI_REGISTRY_KEY=$tmp/key
start_registry tcp:127.0.0.1:0 --key key
same 20480 --inner 30K --outer 20K
(umask 077 && "$bin/dfi-registry" keygen wrong)
DFI_REGISTRY_KEY=$tmp/wrong other 1
ends 1 $other 1 'node-1: .*key'
stop_registry
unset DFI_REGISTRY_KEY

# --- An invocation is missing ------------------------------------------------

# These time limits pass. Before the first of them, all invocations that start have come,
# though each may be late by 2 s.

missing()
{
	first --nodes 4 --local-nodes 2 --timeout 8
	other 2 --timeout 14
	ends first $first 1 'not all nodes came in 8 s.*target 3 of 4: nobody'
	ends 2 $other 1 "waiting for the first process of run '$run'.*nobody"
}

first_is_missing()
{
	run=run-$BASHPID
	other 1 --timeout 4
	ends 1 $other 1 "waiting for the first process of run '$run'.*"
}

too_many()
{
	first --nodes 2 --local-nodes 1 --timeout 8
	other 2 --timeout 8
	ends 2 $other 1 'target 2: the flow has 2, numbered from 0'
	ends first $first 1 'not all nodes came in 8 s.*target 1 of 2: nobody'
}

# Two invocations with the same number.
twice()
{
	local one
	first --nodes 4 --local-nodes 1 --timeout 8
	other 1 --local-nodes 2 --timeout 14
	one=$other
	other 2 --timeout 14
	wait $one $other || true
	grep -q 'target 2 is attached already' [12].err ||
		fail "$run: two nodes of the same number: $(cat [12].err)"
	ends first $first 1 'not all nodes came'
}

# There is a run of this name.
taken()
{
	local deadline=$((SECONDS + 60))
	first --nodes 2 --local-nodes 1 --timeout 8
	until "$bin/dfi-info" flows | grep -F "$run.task" > /dev/null; do
		[ $SECONDS -lt $deadline ] || fail "$run: it doesn't start"
	done
	refuse 1 "flow '$run.*exists already" --run "$run" --inner 1K --outer 1K
	ends first $first 1 'not all nodes came in 8 s'
}

start_registry "unix:$tmp/registry"
began=$SECONDS
for case in missing first_is_missing too_many twice taken; do
	start $case
done
finish
[ $((SECONDS - began)) -le 120 ] || fail "waiting took $((SECONDS - began)) s"

# --- A process dies ----------------------------------------------------------

# Kill the process of this run with this name and arguments while the given process runs.
# Fails if there was none.
kill_process() # PID NAME ARGUMENTS
{
	local directory name arguments
	while kill -0 "$1" 2> /dev/null; do
		for directory in /proc/[0-9]*; do
			{ read -r name < "$directory/comm" &&
				[ "$name" = "$2" ] &&
				arguments=$(tr '\0' ' ' \
					< "$directory/cmdline"); } \
				2> /dev/null || continue
			if [[ $arguments == *" $3 "* ]]; then
				kill -KILL "${directory#/proc/}" 2> /dev/null
				return
			fi
		done
	done
	return 1
}

# A process dies while all wait for one that never comes: the others end at once, and say
# why.
died_waiting()
{
	local began=$SECONDS
	first --nodes 4 --local-nodes 1 --timeout 100
	other 1 --local-nodes 2 --timeout 100
	kill_process $other node-2 "--run=$run" ||
		fail "$run: there is no node-2"
	ends 1 $other 1 'node 2 .pid [0-9]*. was killed by signal 9'
	kill_process $first radix_join "--run $run --json" ||
		fail "$run: no join"
	wait $first || true
	[ $((SECONDS - began)) -lt 100 ] || fail "$run: it was waited for"
}

# A process dies at any time, unless the join was faster: the others end, and say why. A
# process that is killed while another attaches to it breaks off its answer.
died='died or closed before the end|aborted|process at [^ ]* is gone|nobody can any more'

node_dies() # DELAY
{
	first --inner 4M --outer 4M --nodes 3 --local-nodes 1 --timeout 10
	other 1 --local-nodes 2 --timeout 10
	sleep "$1"
	if kill_process $other node-2 "--run=$run"; then
		suffers 1 $other 'node 2 .pid [0-9]*. was killed by signal 9'
		suffers first $first "$died|not all (nodes|workers) came"
	fi
	wait $first $other || true
}

first_dies() # DELAY
{
	first --inner 4M --outer 4M --nodes 3 --local-nodes 1 --timeout 10
	other 1 --local-nodes 2 --timeout 10
	sleep "$1"
	if kill_process $first radix_join "--run $run --json"; then
		suffers 1 $other "$died|nobody has (opened|created) it"
	fi
	wait $first $other || true
}

start died_waiting
for delay in 0 0.2 0.5; do
	start node_dies $delay
done
finish
# A few at a time: each takes memory.
for delay in 0 0.2 0.5; do
	start first_dies $delay
done
finish
stop_registry

# --- Command lines -----------------------------------------------------------

refuse 1 'registry' --run a --nodes 2 --local-nodes 1 --timeout 1
unset DFI_REGISTRY
refuse 1 'DFI_REGISTRY' --run a --first-node 1
refuse 2 'a name to meet under: --run' --nodes 3 --local-nodes 1
refuse 2 'a name to meet under: --run' --first-node 1
refuse 2 'said on the first machine only' --run a --first-node 1 --inner 5
refuse 2 'said on the first machine only' --run a --first-node 1 --nodes 5
refuse 2 'said on the first machine only' --run a --first-node 1 --json
refuse 2 '--local-nodes 3 is more than --nodes 2' --run a --local-nodes 3
refuse 2 '--baseline is for one machine' --run a --local-nodes 1 \
	--baseline local
printf 'k,v\na,1\n' > ab.csv
refuse 2 'files can be joined on one machine only' --run a --local-nodes 1 \
	--inner-csv ab.csv --inner-key k --outer-csv ab.csv --outer-key k
refuse 2 'is no name' --run a/b
refuse 2 'is no name' --run ''
refuse 2 'is no number' --run a --first-node 0
refuse 2 'is no number' --run a --timeout 0

echo "$n_checks checks passed, $n_runs runs"
