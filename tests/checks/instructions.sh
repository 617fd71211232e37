#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# instructions.sh PROGRAM [--update | WAY]: the calls that move tuples take as many
# instructions as PROGRAM's table says (instructions.txt, instructions_verbs.txt), with a
# tolerance of 2 % either way. PROGRAM is build/tests/checks/instructions, or
# instructions_verbs beside it. callgrind runs it, so the counts do not depend on how busy
# the machine is. Skipped without valgrind, and where the program was not built or does
# not run as the table's first line says.
#
# --update writes the table anew; commit it with the change that it measures. With the name
# of a way, such as "push, 64 B", it says which functions that way's instructions are of.
set -euo pipefail
cd "$(dirname "$0")/../.."

program=$1 option=${2-}
table=tests/checks/${program##*/}.txt
if ! command -v valgrind > /dev/null; then
	echo "skipped: there is no valgrind"
	exit 77
fi
# Settings of the library would change what it does.
unset "${!DFI_@}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ways=()
case $option in
'' | --update) ;;
*) ways=("$option") ;;
esac

valgrind --tool=callgrind --separate-threads=yes --toggle-collect=count_this \
	--dump-after=count_ends --callgrind-out-file="$work/counts" \
	"$program" "${ways[@]}" > "$work/ways" 2> "$work/log" || {
	cat "$work/log"
	exit 1
}
built=$(head -n 1 "$work/ways")
[ "$option" = --update ] || [ "$built" = "$(head -n 1 "$table")" ] || {
	echo "skipped: the table is for '$(head -n 1 "$table")', this is '$built'"
	exit 77
}

# The program's line for a way has the units of the shorter run, the unit and the name;
# callgrind wrote three counts for it, the main thread's in files that end with -01.
count() # NUMBER
{
	sed -n 's/^totals: //p' "$work/counts.$1-01"
}
run=1
{
	echo "$built"
	while IFS=$'\t' read -r units unit way; do
		awk -v once="$(count $((run + 1)))" -v twice="$(count $((run + 2)))" \
			-v units="$units" -v unit="$unit" -v way="$way" \
			'BEGIN { printf "%9.2f / %-8s %s\n", (twice - once) / units, unit, way }'
		run=$((run + 3))
	done < <(tail -n +2 "$work/ways")
} > "$work/table"
[ "$run" -gt 1 ] || {
	echo "there is no way '$option': $table has their names"
	exit 1
}

case $option in
--update)
	cp "$work/table" "$table"
	;;
'')
	# Lines are: COUNT / UNIT WAY.
	awk 'FNR == 1 { next }
		{ way = $0; sub(/^ *[0-9.]+ /, "", way) }
		NR == FNR { expected[way] = $1; next }
		!(way in expected) { print "not in the table: " $0; failed = 1; next }
		{ ratio = $1 / expected[way] }
		ratio > 1.02 || ratio < 1 / 1.02 {
			name = way
			sub(/^[^ ]+ +[^ ]+ +/, "", name)
			printf "%s: %s instructions a %s instead of %s (%+.1f %%)\n",
				name, $1, $3, expected[way], 100 * (ratio - 1)
			failed = 1
		}
		{ delete expected[way] }
		END {
			for (way in expected) {
				print "only in the table: " way
				failed = 1
			}
			exit failed
		}' "$table" "$work/table" || {
		echo "If that is meant, or faster: tests/checks/instructions.sh $program --update"
		echo "What it is of: tests/checks/instructions.sh $program \"WAY\""
		exit 1
	}
	cat "$work/table"
	;;
*)
	tail -n +2 "$work/table"
	callgrind_annotate "$work/counts.3-01"
	;;
esac
