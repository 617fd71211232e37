# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# script_help.sh, to be sourced: what the scripts here share. They define fail().

# Seconds that only what hangs takes. CTest allows a script 600.
# shellcheck disable=SC2034
patience=300

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

# For the trap at EXIT, which also runs when the script is ended by a signal:
# nobody whom it has started, and may have stopped, stays behind.
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
