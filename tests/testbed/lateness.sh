# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# lateness.sh, to be sourced: time limits that a busy machine does not break. A process
# that wants to run each 100 ms measures how late it runs; that time is added to the limits.
# Needs $lateness, a file.

now_ms()
{
	date +%s%3N
}

# Run it in the background. It writes how late this machine is, as lines
# "MICROSECONDS LATE_MICROSECONDS", until the script ends.
# shellcheck disable=SC2154
watch_lateness()
{
	local before=${EPOCHREALTIME/./} now late

	while sleep 0.1 && kill -0 $$; do
		now=${EPOCHREALTIME/./}
		late=$((now - before - 100000))
		before=$now
		# This includes the start and the end of a process.
		[ $late -lt 20000 ] || echo "$now $late"
	done > "$lateness" 2> /dev/null
}

# Prints how late the machine was since then. The watch is late as well, so it gets time to
# write its last line.
late_ms() # SINCE_MS
{
	sleep 0.2
	awk -v since="$1" '$1 > since * 1000 {
			late = $1 - since * 1000 < $2 ? $1 - since * 1000 : $2
			sum += late }
		END { print int(sum / 1000) }' "$lateness"
}

# Whether COMMAND succeeds in time, by the clock of a machine that is never late.
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
