#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# devices.sh BUILD_DIR: which device and address a context takes, in one virtual
# machine with one processor and two soft-RoCE devices: IPv4, IPv6 and link-local
# addresses, the route to the registry, the settings, and a peer behind the other
# device.
set -euo pipefail

script=$(realpath "$0")

if [ "${1-}" != --inside ]; then
	build=$(realpath "$1")
	# The script makes devices, so it runs in a virtual machine only.
	unset DFI_TEST_DEVICE
	exec "${script%/*}/testbed" up 1 --memory 2048 --cpus 1 --timeout 840 -- \
		bash "$script" --inside "$build"
fi

cd "$2"
export DFI_OPEN_TIMEOUT=20000

fail()
{
	echo "failed: $*"
	exit 1
}

# Both ends are in this machine. Each device has its own network.
ip -6 addr add fd00::1/64 dev eth0 nodad
ip link add veth0 type veth peer name veth1
ip addr add 10.88.0.1/24 dev veth0
ip link set veth0 up
ip link set veth1 up
rdma link add rxe1 type rxe netdev veth0
until ip -6 addr show dev eth0 scope link | grep -v tentative |
	grep -q inet6; do
	sleep 0.1
done
link_local=$(ip -6 addr show dev eth0 scope link |
	awk '/inet6/ { sub("/.*", "", $2); print $2 }')

chosen() # VARIABLE=VALUE...: device, address and GID
{
	# The JSON has a line for each member. Python would take seconds to start on an
	# emulated processor.
	env "$@" bin/dfi-info devices --json | awk -F '"' '
		$2 == "transport" { transport = $4 }
		$2 == "device" { device = $4 }
		$2 == "address" { address = $4 }
		$2 == "gid" { gid = $4 }
		$2 == "chosen" && $3 ~ /true/ && transport == "verbs" {
			print device, address, gid
		}'
}

expect() # WHAT VARIABLE=VALUE...
{
	local what=$1 is

	shift
	is=$(chosen "$@")
	[ "$is" = "$what" ] || fail "$*: '$is' is chosen, not '$what'"
}

first="rxe0 $NODE_ADDRESS ::ffff:$NODE_ADDRESS"
second="rxe1 10.88.0.1 ::ffff:10.88.0.1"
expect "$first" A=B
expect "$second" DFI_VERBS_DEVICE=rxe1
expect "$second" DFI_VERBS_ADDRESS=10.88.0.1
expect "rxe0 fd00::1 fd00::1" DFI_VERBS_ADDRESS=fd00:0::1
expect "rxe0 $link_local $link_local" DFI_VERBS_ADDRESS="$link_local"
expect "" DFI_VERBS_DEVICE=rxe1 DFI_VERBS_ADDRESS=fd00::1
# The address by which all members reach the registry chooses the device, if it has one.
expect "$second" DFI_REGISTRY=tcp:10.88.0.1:7000
expect "rxe0 fd00::1 fd00::1" "DFI_REGISTRY=tcp:[fd00::2]:7000"
expect "$first" DFI_REGISTRY=tcp:127.0.0.1:7000
expect "$second" DFI_REGISTRY=tcp:127.0.0.1:7000 DFI_VERBS_DEVICE=rxe1

# Flows run over each kind of address. A device's counters depend on no address, so in a
# short run only the first address has the cases that look at them.
export DFI_TRANSPORT=verbs
cases=()
for address in fd00::1 "$link_local" 10.88.0.1; do
	echo "== flows over $address"
	DFI_TEST_DEVICE=$([ "$address" = 10.88.0.1 ] && echo rxe1 || echo rxe0) \
		DFI_VERBS_ADDRESS=$address tests/flow/test_transport -j1 \
		"${cases[@]}"
	[ -z "${DFI_TEST_SHORT-}" ] || cases=('--filter=@(devices|transport)/*')
done

# Sources whose targets are behind different devices.
echo "== targets behind two devices"
bin/dfi-registry --listen unix:@devices --print-address > /tmp/address &
registry=$!
until [ -s /tmp/address ]; do
	sleep 0.1
done

serve() # FLOW TARGETS TARGET DEVICE
{
	DFI_VERBS_DEVICE=$4 tests/proc/worker -r unix:@devices -f "$1" \
		${2:+-c "$2"} "target:$3" > "/tmp/$1.$3" &
	targets+=($!)
	until grep -q open "/tmp/$1.$3"; do
		kill -0 $!
		sleep 0.1
	done
}

# Each source uses the route to each target, while another source uses both devices.
targets=()
serve f 2:2 0 rxe1
serve f "" 1 rxe0
tests/proc/worker -r unix:@devices -f f -n 10000 source:0 source:1 \
	> /tmp/sources
[ "$(grep -c 'ended 0 10000' /tmp/sources)" = 2 ] ||
	fail "sources with targets behind two devices: $(cat /tmp/sources)"
wait "${targets[@]}"
cat /tmp/f.0 /tmp/f.1
cat /tmp/f.? | awk '/ended 0/ { n += $5 } END { exit n != 20000 }' ||
	fail "not all tuples have arrived"

# An error names the setting that forces a device off the route.
echo "== a peer behind another device than the one that is set"
targets=()
serve g 1:1 0 rxe1
DFI_VERBS_DEVICE=rxe0 tests/proc/worker -r unix:@devices -f g source:0 |
	tee /tmp/source
grep -q "ended -113 .*the route to 10.88.0.1:[0-9]* is from 10.88.0.1, but \
DFI_VERBS_DEVICE=rxe0 is set .*DFI_VERBS_ADDRESS=10.88.0.1): verbs: \
rxe0 port 1, GID [0-9]* ::ffff:$NODE_ADDRESS: " /tmp/source ||
	fail "the source does not say which setting leads it off the route"
# Without the setting, the source reaches its target.
tests/proc/worker -r unix:@devices -f g source:0 | grep "source 0 ended 0"
wait "${targets[@]}"
kill $registry
echo "each device was used as it should be"
