#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_versions.sh BIN_DIR WORKER NEXT_DIR [NETWORK]...: processes that speak different
# versions of a protocol say so, with both versions and which end to upgrade. NEXT_DIR has
# a libdfi.so that speaks the next version of the one that DFI_TEST_NEXT names. In each case
# either end is the newer one once. NETWORK: a transport to test, ofi or verbs.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bin=$1 worker=$2 next=$3 networks=("${@:4}")
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT

# as=(...): what runs a command with the library of this version, or of the next one of a
# protocol.
use() # this | next PROTOCOL
{
	as=(env)
	[ "$1" = this ] || as=(env LD_LIBRARY_PATH="$next" DFI_TEST_NEXT="$2")
}

# Until it ends, with its output in $tmp/out.
run() # this | next PROTOCOL COMMAND [ARGUMENT]...
{
	use "$1" "$2"
	timeout "$wait_limit" "${as[@]}" "${@:3}" > "$tmp/out" 2>&1
}

# A file has a text that matches. Its first two groups are the versions of the ends that
# are this and next, in the order given; the third says where to upgrade, which is the
# word given for the end that is this.
tells() # FILE REGEX FIRST WORD SECOND WORD
{
	local deadline=$((SECONDS + 60)) older=$4 difference=-1

	until [[ $(cat "$1") =~ $2 ]]; do
		[ $SECONDS -lt $deadline ] || fail "no '$2' in: $(cat "$1")"
		sleep 0.05
	done
	[ "$3" = this ] || { older=$6 difference=1; }
	[ $((BASH_REMATCH[1] - BASH_REMATCH[2])) -eq $difference ] ||
		fail "not the versions of $3 and $5: ${BASH_REMATCH[0]}"
	[ "${BASH_REMATCH[3]}" = "$older" ] ||
		fail "not to upgrade $older: ${BASH_REMATCH[0]}"
}

export DFI_REGISTRY=unix:$tmp/socket
start_registry() # this | next
{
	rm -f "$tmp/address"
	use "$1" registry
	"${as[@]}" "$bin/dfi-registry" --listen "$DFI_REGISTRY" \
		--print-address > "$tmp/address" 2> "$tmp/registry" &
	registry=$!
	await "$tmp/address"
}
stop_registry()
{
	kill $registry
	wait $registry || :
}

# The process of a target, which has created the flow, is $target until it is ended.
start_target() # this | next PROTOCOL
{
	rm -f "$tmp/target"
	use "$1" "$2"
	"${as[@]}" "$worker" -r "$DFI_REGISTRY" -f f -c 1:1 -t 600000 target:0 \
		> "$tmp/target" 2> "$tmp/target_log" &
	target=$!
	await "$tmp/target"
}
end_target()
{
	kill $target
	wait $target || :
}
# The process of a source.
source_of() # this | next PROTOCOL
{
	run "$1" "$2" "$worker" -r "$DFI_REGISTRY" -f f source:0 || :
}

speaks="the registry speaks protocol version ([0-9]+), the client version ([0-9]+): \
upgrade DFI where the ([a-z]+) runs"

# A process that asks a registry, and one whose registry is replaced.
registry() # WHO WHO: registry, client
{
	start_registry "$1"
	! run "$2" registry "$bin/dfi-info" nodes || fail "$1 has a client that is $2"
	tells "$tmp/out" "$speaks" "$1" registry "$2" client
	tells "$tmp/registry" "$speaks" "$1" registry "$2" client
	stop_registry

	start_registry "$2"
	start_target "$2" registry
	stop_registry
	start_registry "$1"
	tells "$tmp/target_log" "$speaks" "$1" registry "$2" client
	end_target
	stop_registry
}

rings() # WHO WHO: creator, source
{
	local layouts="flow 'f' has rings of layout ([0-9]+), as node [^ ]+ \
\(host [^ ]+, pid [0-9]+\) created it, and this process knows layout ([0-9]+): \
upgrade DFI (here|there)"

	source_of "$2" rings
	tells "$tmp/out" "source 0 ended -71 0 $layouts" "$1" there "$2" here
	run "$2" rings "$bin/dfi-info" flows || fail "dfi-info flows: $(cat "$tmp/out")"
	tells "$tmp/out" "not listed: $layouts" "$1" there "$2" here
}

speaks_other="speaks version ([0-9]+), this one ([0-9]+): upgrade DFI (here|there)"

memory() # WHO WHO: target, source
{
	source_of "$2" memory
	tells "$tmp/out" "source 0 ended -71 0 .*at @dfi-$target-[0-9a-f]+ $speaks_other" \
		"$1" there "$2" here
	tells "$tmp/target_log" "refused process [0-9]+: it $speaks_other" "$2" there "$1" here
}

declare -A over=([ofi]=libfabric [verbs]=RDMA)
network() # WHO WHO: target, source
{
	local speaks="at [0-9.]+:[0-9]+ speaks version ([0-9]+) over ${over[$protocol]}, \
this one ([0-9]+): upgrade DFI (here|there)"

	source_of "$2" "$protocol"
	tells "$tmp/out" "source 0 ended -71 0 .*$speaks" "$1" there "$2" here
	tells "$tmp/target_log" "refused a connection: $protocol: the process $speaks" \
		"$2" there "$1" here
}

report() # WHO WHO: process, dfi-info
{
	run "$2" report "$bin/dfi-info" stat || :
	tells "$tmp/out" "at @dfi-$target-[0-9a-f]+ $speaks_other" "$1" there "$2" here
	tells "$tmp/target_log" "refused process [0-9]+: it $speaks_other" "$2" there "$1" here
}

registry this next
registry next this
start_registry this
for protocol in rings memory report "${networks[@]}"; do
	check=$protocol
	if [ "${over[$protocol]-}" ]; then
		check=network
		export DFI_TRANSPORT=$protocol
	fi
	for ends in "this next" "next this"; do
		read -r first second <<< "$ends"
		start_target "$first" "$protocol"
		$check "$first" "$second"
		end_target
	done
	# Two of the next version understand each other.
	start_target next "$protocol"
	source_of next "$protocol"
	grep -q "^source 0 ended 0 1000 " "$tmp/out" || fail "$protocol: $(cat "$tmp/out")"
	wait $target || fail "$protocol: $(cat "$tmp/target" "$tmp/target_log")"
done
