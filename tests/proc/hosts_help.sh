# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# hosts_help.sh, to be sourced after script_help.sh: two network namespaces with an Ethernet
# between them stand for two hosts without RDMA. Only root can make them.
# shellcheck disable=SC2034,SC2154 # variables for the script, or of it

skip() # REASON
{
	echo "skipped: $*"
	exit 77
}

# Make the hosts $here, with the address 10.77.9.1, and $there, with 10.77.9.2, and the folder
# $tmp. At the script's end all is gone, and so are its processes.
hosts_make()
{
	here=dfi-a-$$ there=dfi-b-$$
	[ "$(id -u)" = 0 ] || skip "only root can make namespaces"
	command -v ip > /dev/null || skip "there is no ip (iproute2)"
	ip netns add "$here" 2> /dev/null || skip "no namespaces here"
	tmp=$(mktemp -d)
	trap hosts_end EXIT
	# It mounts a file system over /sys, which a bare chroot can't.
	ip netns exec "$here" true 2> /dev/null || skip "no programs run in namespaces here"
	ip netns add "$there"
	ip link add va netns "$here" type veth peer name vb netns "$there" 2> /dev/null ||
		skip "no veth here"
	ip -n "$here" addr add 10.77.9.1/24 dev va
	ip -n "$there" addr add 10.77.9.2/24 dev vb
	ip -n "$here" link set va up
	ip -n "$there" link set vb up
	ip -n "$here" link set lo up
	ip -n "$there" link set lo up
}

hosts_end()
{
	end_children
	ip netns del "$here" || :
	ip netns del "$there" || :
	rm -rf "$tmp"
}

in_a() { ip netns exec "$here" "$@"; }
in_b() { ip netns exec "$there" "$@"; }

# Become a program of $here (a) or $there (b) that has the registry's address and key and
# these settings, and no others. To be called in a subshell, or in the background.
at() # a|b SETTING... -- PROGRAM...
{
	local host=$1 settings=(PATH="$PATH" LC_ALL=C) name

	shift
	for name in ASAN_OPTIONS UBSAN_OPTIONS DFI_REGISTRY DFI_REGISTRY_KEY; do
		[ -z "${!name-}" ] || settings+=("$name=${!name}")
	done
	while [ "$1" != -- ]; do
		settings+=("$1")
		shift
	done
	[ "$host" = a ] && host=$here || host=$there
	exec ip netns exec "$host" env -i "${settings[@]}" "${@:2}"
}

# Make a second network, in which the hosts are 10.77.8.1 and 10.77.8.2, and which delays
# packets each way and loses some. It needs $lossy_link. Fails where there are no such devices.
hosts_lose() # DELAY_MS PERCENT
{
	[ -c /dev/net/tun ] || return 1
	"$lossy_link" "$here" "$there" "$1" "$2" > "$tmp/link" &
	await "$tmp/link"
	ip -n "$here" addr add 10.77.8.1 peer 10.77.8.2 dev lossy
	ip -n "$there" addr add 10.77.8.2 peer 10.77.8.1 dev lossy
	ip -n "$here" link set lossy up
	ip -n "$there" link set lossy up
}

# Start a registry at an address of $here, and let programs use it: $DFI_REGISTRY,
# $DFI_REGISTRY_KEY. $registry is its process.
registry_start() # ADDRESS
{
	[ -e "$tmp/key" ] || "$bin/dfi-registry" keygen "$tmp/key"
	rm -f "$tmp/address"
	in_a "$bin/dfi-registry" --listen "tcp:$1:0" --key "$tmp/key" --print-address \
		> "$tmp/address" 2> "$tmp/registry.err" &
	registry=$!
	await "$tmp/address"
	DFI_REGISTRY=$(cat "$tmp/address")
	export DFI_REGISTRY DFI_REGISTRY_KEY=$tmp/key
}
