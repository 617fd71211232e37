# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# script_help.sh, to be sourced: common functions of these scripts.

# In seconds: only a process that hangs takes so long. CTest allows a script 600.
# shellcheck disable=SC2034
wait_limit=300

# A script with more to show than the file err defines its own.
fail() # TEXT...
{
	echo "FAILED: $*"
	[ ! -s err ] || sed 's/^/  /' err
	exit 1
}

kill_below() # PID
{
	local file child children

	for file in "/proc/$1/task/"*/children; do
		read -r -a children < "$file" || :
		for child in "${children[@]}"; do
			kill_below "$child"
			kill -KILL "$child" || :
		done
	done
}

# For the trap at EXIT, which also runs when a signal ends the script. It ends all processes
# that the script has started, also those that it has stopped.
end_children()
{
	kill_below $$ 2> /dev/null
}

await() # FILE: something is in it
{
	local deadline=$((SECONDS + 60))

	until [ -s "$1" ]; do
		[ $SECONDS -lt $deadline ] || fail "nothing came in $1"
		sleep 0.05
	done
}

# Run a command in a control group with a limit on memory. rc is its exit status, or 125 if
# the script may make no such group.
in_memory() # BYTES COMMAND [ARGUMENT]...
{
	local root folder

	for root in /sys/fs/cgroup/memory /sys/fs/cgroup; do
		folder=$root/dfi-test-$$
		mkdir "$folder" 2> /dev/null || continue
		if { echo "$1" > "$folder/memory.limit_in_bytes" ||
			echo "$1" > "$folder/memory.max"; } 2> /dev/null; then
			rc=0
			(echo "$BASHPID" > "$folder/cgroup.procs" && exec "${@:2}") || rc=$?
			remove_group "$folder"
			return 0
		fi
		rmdir "$folder"
	done
	rc=125
}

# The kernel may still be at work on processes that have ended.
remove_group() # FOLDER
{
	local i

	for ((i = 0; i < 100; i++)); do
		rmdir "$1" 2> /dev/null && return
		sleep 0.1
	done
	fail "$1 can't be removed"
}
