# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# nodes.sh, to be sourced: common functions of tests between virtual machines. Such a script
# runs on the host, beside the VMs that it has booted (drive). It calls itself in a VM to
# run one of its functions there (on, run_in_node). Needs
#
#   $script  its path
#   $build   on the host: BUILD_DIR
#   $case    on the host: the name of the current case, and of the files in $SHARED that
#            nodes write about it; fail() shows them.
#
# It sources lateness.sh.
# shellcheck disable=SC2034,SC2154 # variables of the script, or for it

testbed=${script%/*}/testbed

# shellcheck source=tests/testbed/lateness.sh
. "${script%/*}/lateness.sh"

# ---- In a VM ---------------------------------------------------------------

# If on() has called the script: run that function and exit.
run_in_node() # --node BUILD_DIR FUNCTION ARGUMENT...
{
	[ "${1-}" = --node ] || return 0
	cd "$2" || exit
	"${@:3}"
	exit
}

registry()
{
	exec bin/dfi-registry --listen "tcp:$NODE_ADDRESS:7000" \
		--key "$SHARED/key" --print-address > "$SHARED/address.new"
}

# Let the programs that this node runs next use the registry. The key is copied, as on real
# machines, because its mode must be 0600.
use_registry()
{
	DFI_REGISTRY=$(cat "$SHARED/address")
	DFI_REGISTRY_KEY=$(mktemp)
	cp "$SHARED/key" "$DFI_REGISTRY_KEY"
	export DFI_REGISTRY DFI_REGISTRY_KEY
}

# Run COMMAND. Files with this name get its lines, its process and its exit status.
record() # NAME COMMAND...
{
	local status=0

	"${@:2}" <&0 > "$SHARED/$1.$NODE" &
	echo $! > "$SHARED/$1.pid.$NODE"
	{ wait $! || status=$?; } 2> /dev/null
	echo $status > "$SHARED/$1.status.$NODE"
}

# Run FUNCTION (record, or one that calls it) with a pipe as stdin, for go_on().
held() # FUNCTION NAME ARGUMENT...
{
	mkfifo "/tmp/told.$2"
	"$@" 0<> "/tmp/told.$2"
}

go_on() # NAME
{
	[ -p "/tmp/told.$1" ] || return
	# Opened for both directions, the pipe does not wait for a process that is gone.
	echo c 1<> "/tmp/told.$1"
}

# Send a signal to the command of record().
signal() # NAME SIGNAL
{
	kill "-$2" "$(cat "$SHARED/$1.pid.$NODE")"
}

# Prints how many packets of this node netem has lost.
lost()
{
	tc -s qdisc show dev eth0 |
		sed -n '/netem/,$s/.*(dropped \([0-9]*\),.*/\1/p'
}

# ---- On the host, beside the VMs -------------------------------------------

# Run the script again beside N VMs, with a second argument.
drive() # N OPTION...
{
	exec "$testbed" drive "$@" -- bash "$script" "$build" drive
}

on() # K FUNCTION ARGUMENT...
{
	"$testbed" run "$1" -- bash "$script" --node "$build" "${@:2}"
}

# Prints how much the machines' clocks have gained on this machine's since they booted,
# less the time of the question. Tests rely on clocks that agree.
clocks()
{
	local k ready host_then then now

	for ((k = 0; k < NODES; k++)); do
		ready=$DFI_TESTBED/exchange/ready-$k
		host_then=$(stat -c %.Y "$ready") && read -r then _ < "$ready" &&
			now=$("$testbed" run "$k" --timeout 5 -- \
				cut -d ' ' -f 1 /proc/uptime 2> /dev/null) ||
			continue
		awk "BEGIN { printf \"node $k: its clock has gained %.1f s\\n\",
			$now - $then - ($EPOCHREALTIME - $host_then) }"
	done
}

fail() # TEXT...
{
	echo "failed: $case: $*"
	tail -n +1 "$SHARED/$case".* || true
	(clocks) || true
	exit 1
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

await() # WHAT MS COMMAND...
{
	within "${@:2}" || fail "$1: it did not come"
}

says() # K TEXT
{
	grep -q "$2" "$SHARED/$case.$1" 2> /dev/null
}

logs() # K TEXT
{
	grep -q "$2" "$SHARED/$case.log.$1" 2> /dev/null
}

# Prints the exit status of node K's command, as record() wrote it.
status() # K
{
	cat "$SHARED/$case.status.$1"
}

# Start a registry on node 0, as $registry, with the key of an earlier one if there was one.
start_registry()
{
	local case=${case-registry}

	[ -e "$SHARED/key" ] ||
		(umask 077 && "$build/bin/dfi-registry" keygen "$SHARED/key")
	"$testbed" run 0 -- bash "$script" --node "$build" registry &
	registry=$!
	await "the registry's address" 60000 test -s "$SHARED/address.new"
	mv "$SHARED/address.new" "$SHARED/address"
}
