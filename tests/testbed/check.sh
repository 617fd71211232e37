#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check.sh: the testbed does what its README says. With an argument, the script runs one
# part: `one` in a single VM, `two` beside two VMs. The other arguments are programs of
# these two parts.
set -euo pipefail

check=$(realpath "$0")
testbed=${check%/*}/testbed
port=18515

step() # DESCRIPTION COMMAND...
{
	local what=$1 log

	shift
	log=$(mktemp)
	if "$@" > "$log" 2>&1; then
		echo "ok: $what"
	else
		echo "failed: $what: $*"
		cat "$log"
		exit 1
	fi
	rm -f "$log"
}

status_is() # STATUS COMMAND...
{
	local wanted=$1 status=0

	shift
	"$@" || status=$?
	echo "exit status: $status, not $wanted"
	[ $status -eq "$wanted" ]
}

prints() # TEXT COMMAND...
{
	local text=$1 output

	shift
	output=$("$@" 2>&1) || true
	printf '%s\n' "$output"
	[[ $output == *"$text"* ]]
}

# ---- In a VM --------------------------------------------------------------

perftest() # PROGRAM ITERATIONS [ADDRESS]
{
	"$1" -d "$DFI_TEST_DEVICE" -x 1 -p $port -F -s 8192 -n "$2" ${3+"$3"}
}

# Wait until perftest's server answers.
listening()
{
	local deadline=$((SECONDS + 60))

	until ss -ltn | grep -q ":$port "; do
		[ $SECONDS -lt $deadline ] || return 1
		sleep 0.05
	done
}

between_processes() # PROGRAM ITERATIONS
{
	perftest "$@" > /dev/null &
	listening && perftest "$@" "$NODE_ADDRESS" && wait $!
}

# The frequency that a program measures by the kernel's clock, which the kernel may have
# corrected by one percent.
clock_is_as_told()
{
	local told found

	told=$(sed -n 's/.* tsc_early_khz=\([0-9]*\) .*/\1/p' /proc/cmdline)
	found=$("$TMPDIR/tsc_khz") || return
	echo "kHz: told ${told:=0}, found $found"
	[ $((found * 100)) -gt $((told * 98)) ] &&
		[ $((found * 100)) -lt $((told * 102)) ]
}

rping_between_processes()
{
	local deadline=$((SECONDS + 60)) server

	rping -s -a "$NODE_ADDRESS" -C 10 &
	server=$!
	# The client is refused until the server listens.
	until rping -c -a "$NODE_ADDRESS" -C 10; do
		[ $SECONDS -lt $deadline ] || return 1
	done
	wait $server
}

one()
{
	local line

	[ "${DFI_TESTBED_ACCEL:-tcg}" != tcg ] ||
		step "the clock has the frequency that the kernel was told" \
			clock_is_as_told
	step "the port is active" prints PORT_ACTIVE ibv_devinfo -d rxe0
	line=$(ibv_devinfo -d rxe0 | grep active_mtu)
	step "an MTU of 1500 is one of 1024 for RDMA" prints 1024 echo "$line"
	step "16 MiB can't be registered with 8 MiB of memlock" \
		prints "Couldn't register MR" \
		timeout 60 ibv_rc_pingpong -d rxe0 -g 1 -s 16777216
	step "rping between two processes" rping_between_processes
	step "ib_write_bw between two processes" \
		between_processes ib_write_bw 300
	step "ib_write_lat between two processes" \
		between_processes ib_write_lat 100
	exit 7
}

# ---- Beside two VMs -------------------------------------------------------

across()
{
	local server

	"$testbed" run 0 --timeout 120 -- "$check" perftest ib_write_bw 500 &
	server=$!
	# shellcheck disable=SC2154 # ADDRESS_0 is from the testbed
	"$testbed" run 0 --timeout 120 -- "$check" listening &&
		"$testbed" run 1 --timeout 120 -- \
			"$check" perftest ib_write_bw 500 "$ADDRESS_0" &&
		wait $server
}

reach()
{
	"$testbed" run 1 -- busybox ping -c 1 -W 1 "$ADDRESS_0"
}

reach_soon()
{
	local i

	for ((i = 0; i < 30; i++)); do
		! reach || return 0
	done
	return 1
}

port_state()
{
	"$testbed" run 0 -- cat /sys/class/infiniband/rxe0/ports/1/state
}

# The job of a node that is powered off ends soon with an error.
power_off()
{
	local job deadline=$((SECONDS + 60))

	"$testbed" run 1 --timeout 300 -- \
		bash -c "touch '$SHARED/started' && sleep 300" &
	job=$!
	until [ -e "$SHARED/started" ]; do
		[ $SECONDS -lt $deadline ] || return 1
		sleep 0.05
	done
	"$testbed" kill 1 || return 1
	status_is 125 wait $job && [ $SECONDS -lt $deadline ]
}

# The VMs' time limit ends a job. It is short here, so that the test is.
limited()
{
	echo 1 > "$DFI_TESTBED/timeout"
	status_is 124 "$testbed" run 0 -- sleep 60
}

# With a device, a command runs on this machine, which is a VM here. It must not remove
# the outer testbed's folder as one without an owner.
lock_on_host()
{
	"$testbed" run 1 -- bash -c 'mkdir /tmp/inside &&
		TMPDIR=/tmp/inside exec "$@"' - \
		"$testbed" up 1 --memlock 8192 -- \
		timeout 60 ibv_rc_pingpong -d rxe0 -g 1 -s 16777216
}

# A node that was powered off is there again, with the memory that all share.
back_with_board()
{
	local line

	"$testbed" run 1 -- "$peek" 4711 && "$testbed" kill 1 &&
		"$testbed" boot 1 && reach &&
		line=$("$testbed" run 1 -- "$peek") &&
		[ "$line" = 4711 ] && [ "$("$peek")" = 4711 ]
}

two()
{
	step "16 MiB can't be registered with 8 MiB on a device's host" \
		prints "Couldn't register MR" lock_on_host
	step "ib_write_bw from node 1 to node 0" across
	"$testbed" net all loss 1%
	step "the same with 1 % of the packets lost" across
	"$testbed" net all heal
	"$testbed" net 0 cut
	step "a node that is cut off is not reached" status_is 1 reach
	step "but its port is active" prints ACTIVE port_state
	"$testbed" net 0 unplug
	step "the port is down without a cable" prints DOWN port_state
	"$testbed" net 0 heal
	step "a healed node is reached" reach_soon
	step "a node boots again, and the shared memory has stayed" back_with_board
	step "a job's node is powered off" power_off
	step "that node is off" prints "node 1: off" "$testbed" status
	step "the other one is on" "$testbed" run 0 -- true
	step "a job without a limit has that of the VMs" limited
}

# ---- On the host ----------------------------------------------------------

# A program that prints the first number of the shared memory, or sets it.
compile_peek()
{
	"${CC:-cc}" -D_GNU_SOURCE -o "$peek" -x c - <<- 'END'
		#include <fcntl.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <sys/mman.h>

		int main(int argc, char **argv)
		{
			int fd = open(getenv("SHARED_MEMORY"), O_RDWR);
			int *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				MAP_SHARED, fd, 0);

			if (at == MAP_FAILED)
				return 1;
			if (argc > 1)
				*at = atoi(argv[1]);
			else
				printf("%d\n", *at);
			return 0;
		}
	END
}

if [ $# -gt 0 ]; then
	"$@"
	exit
fi
unset DFI_TEST_DEVICE
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
export peek=$TMPDIR/peek
compile_peek
step "a device that isn't there is refused" status_is 125 \
	env DFI_TEST_DEVICE=none_such "$testbed" up 1 -- true
step "a program that is missing is named" prints "not installed: none_such" \
	env CC=none_such "$testbed" up 2 -- true
step "kernel and initramfs are there" "$testbed" prepare
"${CC:-cc}" -D_GNU_SOURCE -o "$TMPDIR/tsc_khz" "${check%/*}/tsc_khz.c"
status=0
"$testbed" up 1 --timeout 300 --mtu 1500 --memlock 8192 -- "$check" one ||
	status=$?
step "the exit status of the command is passed on" [ $status -eq 7 ]
"$testbed" drive 2 --board 1 --timeout 300 -- "$check" two
step "no cluster is left behind" status_is 1 compgen -G "$TMPDIR/dfi-testbed.*"
