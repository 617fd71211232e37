#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# members.sh BUILD_DIR [RUNS [SEED]]: a service (examples/rpc) on one virtual machine, and
# clients on three others. One client visits it all the time. In each of RUNS (4), while the
# other two visit it as well, one of their processes is killed, or their machine is cut off
# for a moment or until its lease has ended; the last run of a boot powers the machine off.
# The steady client loses no request, whatever befalls the others; the seats of the dead are
# free when their lease has ended; and who comes back gets one. The last line is
# "runs: N violations: 0".
set -euo pipefail

script=$(realpath "$0")
# shellcheck source=tests/testbed/nodes.sh
. "${script%/*}/nodes.sh"

lease_ms=8000
# Runs for each boot of the machines.
batch=10

# ---- In a VM ---------------------------------------------------------------

member() # NAME PROGRAM ARGUMENT...
{
	use_registry
	export DFI_LEASE=$lease_ms DFI_TRANSPORT=verbs
	record "$1" "bin/$2" "${@:3}" 2> "$SHARED/$1.log.$NODE"
}

# Prints the clients that hold seats: of requests, and of replies.
seats()
{
	use_registry
	bin/dfi-info flows | awk '
		/^[^ ]/ { flow = $1 }
		flow == "rpc.requests:" && $1 == "sources" { print $2 }
		flow == "rpc.replies:" && $1 == "targets" { print $2 }' |
		tr '\n' ' '
}

run_in_node "$@"

# ---- On the host, beside four VMs ------------------------------------------

seats_are() # NUMBER
{
	[ "$(on 0 seats)" = "$1 $1 " ]
}

await_seats() # NUMBER
{
	await "$1 clients with seats" 60000 seats_are "$1"
}

# A client that visits until it is told to end, or has lost a request.
start_client() # NAME NODE
{
	rm -f "$SHARED/$1".*"$2"
	on "$2" member "$1" rpc-client 20 1000000 20 &
}

end_client() # NODE
{
	[ -s "$SHARED/$case.status.$1" ] || on "$1" signal "$case" KILL
	await "the end of the client" 60000 test -s "$SHARED/$case.status.$1"
}

steady_goes_on()
{
	[ ! -s "$SHARED/steady.status.1" ] ||
		fail "the steady client has ended: $(cat "$SHARED/steady.log.1")"
}

run_once() # NUMBER KIND
{
	local victim=$((2 + RANDOM % 2)) kind=$2 other

	case=members-$1
	other=$((5 - victim))
	start_client "$case" 2
	start_client "$case" 3
	await_seats 3
	sleep "0.$((RANDOM % 10))"
	case $kind in
	kill) on $victim signal "$case" KILL ;;
	off) "$testbed" kill $victim ;;
	cut) "$testbed" net $victim cut ;;
	blink)
		"$testbed" net $victim cut
		sleep "0.$((RANDOM % 9 + 1))"
		"$testbed" net $victim heal
		;;
	esac
	if [ "$kind" = blink ]; then
		# It has waited, or its connection has ended.
		sleep 2
	else
		await_seats 2
	fi
	steady_goes_on
	[ ! -s "$SHARED/$case.status.$other" ] ||
		fail "node $other: $(cat "$SHARED/$case.log.$other")"
	[ "$kind" != cut ] || "$testbed" net $victim heal
	end_client $other
	[ "$kind" = off ] || end_client $victim
	await_seats 1
	steady_goes_on
	echo "$case: $kind node $victim: the others went on"
}

run_batch() # FIRST LAST
{
	local i kinds=(kill cut blink)

	start_registry
	case=server
	on 0 member server rpc-server &
	on 1 member steady rpc-client 20 1000000 20 &
	case=steady
	await_seats 1
	for ((i = $1; i <= $2; i++)); do
		if [ "$i" = "$2" ]; then
			run_once "$i" off
		else
			run_once "$i" "${kinds[RANDOM % 3]}"
		fi
	done
	on 1 signal steady KILL
	on 0 signal server TERM
	kill $registry
	wait
}

build=$(realpath "$1")
if [ "${2-}" = --batch ]; then
	RANDOM=$5
	run_batch "$3" "$4"
	exit
fi

# ---- On the host -----------------------------------------------------------

runs=${2:-4}
seed=${3:-$(date +%s)}
echo "seed $seed"
for ((first = 1; first <= runs; first += batch)); do
	last=$((first + batch - 1))
	[ $last -le "$runs" ] || last=$runs
	"$testbed" drive 4 --timeout 900 -- \
		bash "$script" "$build" --batch $first $last $((seed % 10000 + first))
done
echo "runs: $runs violations: 0"
