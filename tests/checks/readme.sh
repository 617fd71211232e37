#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The program that README.md shows is examples/hello_flow.c, and is short; its
# settings and their defaults are those of the library, which knows all variables
# that the project's programs and scripts read. The cores of the replicated store
# are as short as the README of the example says.
set -euo pipefail
cd "$(dirname "$0")/../.."

lines=$(wc -l < examples/hello_flow.c)
if [ "$lines" -ge 80 ]; then
	echo "examples/hello_flow.c has $lines lines: keep it under 80"
	exit 1
fi
sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d' |
	diff examples/hello_flow.c - || {
	echo "README.md shows another hello_flow.c: copy it again"
	exit 1
}

for core in paxos nopaxos; do
	lines=$(cat examples/consensus/$core*.c | wc -l)
	if [ "$lines" -gt 1500 ]; then
		echo "examples/consensus/$core*.c have $lines lines: keep them within 1,500"
		exit 1
	fi
done

# The table in settings.h: a variable and its default on one line of each entry.
settings=$(sed '/^#define DFI_FOREIGN_VARIABLES/d' src/base/settings.h |
	grep -oE '"DFI_[A-Z_]+", ("[^"]*"|NULL),' | tr -d '",')
if [ -z "$settings" ]; then
	echo "found no settings in src/base/settings.h"
	exit 1
fi
failed=0
while read -r variable default; do
	row="| \`$variable\` | \`$default\` |"
	[ "$default" != NULL ] || row="| \`$variable\` | |"
	grep -qF "$row" README.md || {
		echo "README.md has no row of settings that starts with: $row"
		failed=1
	}
done <<< "$settings"

# Whatever else the project reads from the environment is known as such, so that
# the library doesn't take it for a mistake.
foreign=$(sed -n 's/^#define DFI_FOREIGN_VARIABLES //p' src/base/settings.h |
	tr -d '",')
known=" $(cut -d ' ' -f 1 <<< "$settings" | tr '\n' ' ') "
[ -n "$foreign" ] || {
	echo "found no DFI_FOREIGN_VARIABLES in src/base/settings.h"
	exit 1
}
while read -r variable; do
	[[ $known != *" $variable "* ]] || continue
	set -f
	for pattern in $foreign; do
		# shellcheck disable=SC2053
		[[ $variable != $pattern ]] || continue 2
	done
	echo "$variable is read, but is neither a setting nor one of" \
		"DFI_FOREIGN_VARIABLES in src/base/settings.h"
	failed=1
done < <(grep -rhoE 'getenv\("DFI_[A-Z_]+"|\$\{DFI_[A-Z_]+[-:]' src tools bench \
	examples scripts tests .ci | grep -oE 'DFI_[A-Z_]+' | sort -u)
exit $failed
