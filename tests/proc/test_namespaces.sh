#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_namespaces.sh BIN_DIR WORKER: processes in other PID, user, mount and
# network namespaces than the registry or each other. The registry serves allowed
# users from any namespace, and refuses users that it can't tell apart. Memory is shared
# where it can be; errors name the obstacle. Only root can run this test.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bin=$1 worker=$2

skip()
{
	echo "skipped: $*"
	exit 77
}

[ "$(id -u)" = 0 ] || skip "only root can make namespaces"
unshare --pid --fork --mount --net --user true 2> /dev/null || skip "no namespaces here"
grep -q '4294967295$' /proc/self/uid_map || skip "not all users are mapped here"
setpriv --reuid 70001 --clear-groups "$bin/dfi-info" --version > /dev/null 2>&1 ||
	skip "another user can't run the programs"
tmp=$(mktemp -d)
chmod 755 "$tmp"
mkdir "$tmp/empty" "$tmp/users"
chmod 1777 "$tmp/users"
trap 'end_children; rm -rf "$tmp"' EXIT
export DFI_OPEN_TIMEOUT=20000

has() # FILE PATTERN
{
	grep -qi -- "$2" "$1" || fail "no '$2' in $1: $(cat "$1")"
}

# WITH: a command that runs another one, in namespaces
start() # ADDRESS [OPTION]...
{
	rm -f "$tmp/address"
	"${with[@]}" "$bin/dfi-registry" --listen "$1" --print-address "${@:2}" \
		> "$tmp/address" 2> "$tmp/registry.err" &
	registry=$!
	await "$tmp/address"
}

stop()
{
	kill_below $$ 2> /dev/null
	wait "$registry" 2> /dev/null || :
}

as() # UID COMMAND...
{
	local uid=$1

	shift
	setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"
}

# Neither process of an allowed user sees the other's process number.
with=(unshare --pid --fork setpriv --reuid 70001 --regid 70001 --clear-groups)
start "unix:$tmp/users/sock" --allow-user 70002
export DFI_REGISTRY=unix:$tmp/users/sock
DFI_REGISTRY_USER=70001 as 70002 "$bin/dfi-info" nodes > "$tmp/out" 2>&1 ||
	fail "an allowed user of another PID namespace: $(cat "$tmp/out")"
! DFI_REGISTRY_USER=70001 as 70003 "$bin/dfi-info" nodes > "$tmp/out" 2>&1 ||
	fail "a user that is not allowed is served"
has "$tmp/out" "not visible here) runs as user 70003"
stop

# All users look alike to a registry whose namespace maps none.
with=(setpriv --reuid 70001 --regid 70001 --clear-groups unshare --user)
start "unix:@dfi-test-unmapped-$$"
export DFI_REGISTRY=unix:@dfi-test-unmapped-$$
! DFI_REGISTRY_USER=70001 as 70002 "$bin/dfi-info" nodes > "$tmp/out" 2>&1 ||
	fail "a user that is not mapped is served"
has "$tmp/out" "does not map"
! "${with[@]}" "$bin/dfi-info" nodes > "$tmp/out" 2>&1 ||
	fail "a client takes a user that is not mapped for its own"
has "$tmp/out" "does not map"
! "${with[@]}" "$bin/dfi-registry" --listen "unix:@dfi-test-users-$$" \
	--allow-user 65534 > "$tmp/out" 2>&1 ||
	fail "a user that stands for all that are not mapped is allowed"
has "$tmp/out" "does not map"
stop

# With some users mapped, the number that stands for all others is one of them.
with=(unshare --user --map-users=100000,0,65536 --map-groups=100000,0,65536
	setpriv --reuid 65534 --regid 65534 --clear-groups)
if "${with[@]}" true 2> /dev/null; then
	start "unix:@dfi-test-some-$$"
	export DFI_REGISTRY=unix:@dfi-test-some-$$
	! DFI_REGISTRY_USER=165534 as 70002 "$bin/dfi-info" nodes > "$tmp/out" 2>&1 ||
		fail "a user that is not mapped is taken for nobody"
	has "$tmp/out" "does not map"
	stop
fi

with=()
start "unix:$tmp/sock"
export DFI_REGISTRY=unix:$tmp/sock

# A service with ProcSubset=pid, and one without /proc.
cat > "$tmp/subset" << 'END'
mount -t proc -o subset=pid proc /proc && exec "$@"
END
cat > "$tmp/noproc" << END
mount --bind $tmp/empty /proc && exec "\$@"
END
subset=(unshare --mount sh "$tmp/subset")
noproc=(unshare --mount sh "$tmp/noproc")
network=(unshare --net)
noproc_network=(unshare --mount --net sh "$tmp/noproc")

# The target comes first, and stays until the source has said how it ended.
move() # FLOW TARGET_WITH SOURCE_WITH
{
	local -n target_with=$2 source_with=$3
	local target

	timeout $wait_limit "${target_with[@]}" "$worker" -r "$DFI_REGISTRY" \
		-f "$1" -c 1:1 -n 100 target:0 > "$tmp/$1.target" 2>&1 &
	target=$!
	timeout $wait_limit "${source_with[@]}" "$worker" -r "$DFI_REGISTRY" \
		-f "$1" -n 100 source:0 > "$tmp/$1.source" 2>&1 || :
	kill $target 2> /dev/null || :
	wait $target 2> /dev/null || :
}

shares() # FLOW TARGET_WITH SOURCE_WITH
{
	move "$@"
	has "$tmp/$1.source" '^source 0 ended 0 100'
}

# shellcheck disable=SC2034 # named by move()
plain=(env)
shares plain plain plain
shares subset_target subset plain
shares subset_source plain subset
shares noproc_target noproc plain
shares noproc_both noproc noproc

move other_network network plain
has "$tmp/other_network.source" 'another network namespace'
export DFI_TRANSPORT=shm
move shm network plain
has "$tmp/shm.source" 'another network namespace'
unset DFI_TRANSPORT
move unknown noproc_network noproc_network
has "$tmp/unknown.source" '/proc'

"${network[@]}" "$worker" -r "$DFI_REGISTRY" -f stays -c 1:1 -p 0 target:0 \
	< /dev/zero > "$tmp/stays" 2>&1 &
await "$tmp/stays"
"$bin/dfi-info" stat > "$tmp/out" 2>&1 || fail "dfi-info stat: $(cat "$tmp/out")"
has "$tmp/out" 'another network namespace'
echo "dfi in namespaces passed"
