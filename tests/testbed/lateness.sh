# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# lateness.sh, to be sourced: limits for what is tested, not for the machine that
# tests. What a busy one withholds from a process that wants to run each 100 ms is
# measured, and added. Needs $lateness, a file.

now_ms()
{
	date +%s%3N
}

# In the background: what this machine is late, as lines
# "MICROSECONDS LATE_MICROSECONDS", until the script ends.
# shellcheck disable=SC2154
watch_lateness()
{
	local before=${EPOCHREALTIME/./} now late

	while sleep 0.1 && kill -0 $$; do
		now=${EPOCHREALTIME/./}
		late=$((now - before - 100000))
		before=$now
		# A process starts and ends meanwhile.
		[ $late -lt 20000 ] || echo "$now $late"
	done > "$lateness" 2> /dev/null
}

# How late the machine was since then. The watch is late as well, and gets time to note
# the last of it.
late_ms() # SINCE_MS
{
	sleep 0.2
	awk -v since="$1" '$1 > since * 1000 {
			late = $1 - since * 1000 < $2 ? $1 - since * 1000 : $2
			sum += late }
		END { print int(sum / 1000) }' "$lateness"
}

# Until COMMAND succeeds, by the clock of a machine that is never late.
in_time() # SINCE_MS LIMIT_MS COMMAND...
{
	local since=$1 limit=$2 took

	shift 2
	until "$@"; do
		took=$(($(now_ms) - since))
		[ $took -le "$limit" ] ||
			[ $((took - $(late_ms "$since"))) -le "$limit" ] ||
			return 1
		sleep 0.05
	done
}
