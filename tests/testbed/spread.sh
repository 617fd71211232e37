#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# spread.sh BUILD_DIR: rings that are spread over two soft-RoCE devices of one virtual
# machine, each in a network of its own: both carry segments and are shown; when one is
# removed, the flow ends and says why; the next flow uses the other one.
set -euo pipefail

script=$(realpath "$0")

if [ "${1-}" != --inside ]; then
	build=$(realpath "$1")
	# It makes a device of its own, which is for a virtual machine only.
	unset DFI_TEST_DEVICE
	exec "${script%/*}/testbed" up 1 --memory 1024 --cpus 1 --timeout 420 -- \
		bash "$script" --inside "$build"
fi

cd "$2"
work=$(mktemp -d)
export DFI_OPEN_TIMEOUT=20000 DFI_TRANSPORT=verbs DFI_VERBS_DEVICE=rxe0,rxe1

fail()
{
	echo "failed: $*"
	tail -n 50 "$work"/*.out "$work"/*.log
	exit 1
}

until_found() # TEXT FILE
{
	local _

	for _ in $(seq 600); do
		! grep -q "$1" "$2" || return 0
		sleep 0.1
	done
	fail "no '$1' in $2"
}

ip link add veth0 type veth peer name veth1
ip addr add 10.88.0.1/24 dev veth0
ip link set veth0 up
ip link set veth1 up
rdma link add rxe1 type rxe netdev veth0

bin/dfi-info devices --json | awk -F '"' '$2 == "transport" { transport = $4 }
	$2 == "chosen" && $3 ~ /true/ && transport == "verbs" { n++ }
	END { exit n != 2 }' || fail "not both devices are chosen"

bin/dfi-registry --listen unix:@spread --print-address > "$work/address" &
registry=$!
until [ -s "$work/address" ]; do
	sleep 0.1
done

worker() # NAME ARGUMENT...
{
	local name=$1

	shift
	tests/proc/worker -r unix:@spread "$@" > "$work/$name.out" \
		2> "$work/$name.log"
}

echo "== a source with two targets uses both devices"
mkfifo "$work/tell"
worker targets -f f -c 1:2 target:0 target:1 &
targets=$!
worker source -f f -n 2000000000 -p 10000 source:0 < "$work/tell" &
source=$!
exec 3> "$work/tell"
until_found held "$work/source.out"

bin/dfi-info flows --registry unix:@spread | tee "$work/flows.out"
for end in "source 0" "target 0" "target 1"; do
	grep -q "$end: rxe0 port 1, .* and rxe1 port 1, " "$work/flows.out" ||
		fail "$end does not say that it uses both devices"
done
bin/dfi-info stat --registry unix:@spread | tee "$work/stat.out"
# Of two processes, one sends segments by both.
awk '/^  verbs/ { device = $2; sub(",", "", device) }
	/^    posted/ { if ($2 > 0) sends[device] = $2 }
	END { exit !(sends["rxe0"] && sends["rxe1"]) }' "$work/stat.out" ||
	fail "not both devices have sent segments"

echo "== a device that is removed ends the flow"
# It waits until no process has the device open.
rdma link del rxe1 &
removal=$!
echo c >&3
until_found "source 0 ended -104" "$work/source.out"
until_found "target 1 ended -104" "$work/targets.out"
# The other end may have closed the connection before this one looked.
grep -q "rxe1 port 1.*the device was removed" "$work/source.out" "$work/targets.out" ||
	fail "neither end names the device that has failed"
exec 3>&-
wait "$source" "$targets" || true
wait "$removal"

echo "== the next flow uses the other one"
worker targets -f g -c 1:2 target:0 target:1 &
targets=$!
worker source -f g -n 1000 source:0
wait "$targets" || fail "its targets have failed"
grep -q "source 0 ended 0 1000" "$work/source.out" || fail "its source has failed"
grep -q "no usable RDMA device rxe1: " "$work/targets.log" ||
	fail "its targets don't tell that a device is missing"

kill $registry
echo "both devices were used, and one alone"
