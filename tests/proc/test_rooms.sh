#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_rooms.sh BIN_DIR ROOMS: threads and processes that open rings at the same
# time in a control group, whose limit is too low for all of them, are refused.
# The kernel ends none of them.
set -euo pipefail
bin=$1 rooms=$2
here=$(dirname "$0")
# shellcheck source=tests/proc/script_help.sh
. "$here/script_help.sh"

limit=$((256 << 20))

# Prints the folder of a group with that limit, and the file that has it.
make_group()
{
	local mount

	mount=$(sed -n 's/^[^-]* \/ \([^ ]*\) .* - cgroup .*[ ,]memory.*/\1/p' \
		/proc/self/mountinfo | head -n 1)
	file=memory.limit_in_bytes
	if [ -z "$mount" ]; then
		mount=$(sed -n 's/^[^-]* \/ \([^ ]*\) .* - cgroup2 .*/\1/p' \
			/proc/self/mountinfo | head -n 1)
		file=memory.max
	fi
	[ -n "$mount" ] || return 1
	group=$mount/dfi-rooms-$$
	mkdir "$group" 2> /dev/null || return 1
	[ -e "$group/$file" ] && echo $limit 2> /dev/null > "$group/$file" &&
		mkdir "$group/inner" || { rmdir "$group"; return 1; }
}

if ! make_group; then
	echo "skipped: no control group may be made here"
	exit 77
fi
work=$(mktemp -d)

cleanup()
{
	end_children
	wait
	# The kernel may still be at work on processes that have ended.
	for ((i = 0; i < 100; i++)); do
		rmdir "$group/inner" "$group" 2> /dev/null && break
		sleep 0.1
	done
	rm -rf "$work"
}
trap cleanup EXIT

export DFI_REGISTRY=unix:$work/registry
"$bin/dfi-registry" --listen "$DFI_REGISTRY" 2> "$work/registry.err" &
for ((i = 0; i < 600; i++)); do
	[ ! -S "$work/registry" ] || break
	sleep 0.1
done

# PROCESSES of THREADS each, with rings of 48 MiB each.
race() # GROUP PROCESSES THREADS
{
	local i pids=() opened=0 refused=0 word n m

	rm -f "$work"/*.out "$work/go" "$work/end"
	for ((i = 0; i < $2; i++)); do
		(
			echo $BASHPID > "$1/cgroup.procs"
			exec timeout $wait_limit "$rooms" "rooms-$i" "$3" 48 \
				"$group/$file is $limit)" "$work/go" "$work/end"
		) > "$work/$i.out" &
		pids+=($!)
	done
	touch "$work/go"
	for ((i = 0; i < $2; i++)); do
		await "$work/$i.out"
	done
	touch "$work/end"
	for ((i = 0; i < $2; i++)); do
		wait "${pids[i]}" || fail "process $i ended with $?"
		read -r word n word m < "$work/$i.out"
		opened=$((opened + n)) refused=$((refused + m))
	done
	echo "$2 processes of $3 threads: $opened opened, $refused refused"
	[ $opened -ge 3 ] || fail "there was room for more"
	[ $refused -ge 3 ] || fail "too few were refused"
}

race "$group" 8 1
race "$group/inner" 8 1
race "$group" 1 8
race "$group/inner" 4 2
