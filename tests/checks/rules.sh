#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# rules.sh [ROOT]: each rule of docs/open-flows.md is in one of its three tables of what checks
# it. The first two name all that the models and the simulation break, and nothing else; the
# tests of the third are there.
set -euo pipefail
export LC_ALL=C
cd "${1:-$(dirname "$0")/../..}"
page=docs/open-flows.md
models=(failover handover joining marks order_marks replay shared)
failed=0

complain()
{
	echo "$page: $*"
	failed=1
}

# The rows of a table, by the head of its columns.
rows()
{
	awk -v head="$1" '
		$0 == head { inside = 1; next }
		inside && !/^\|/ { inside = 0 }
		inside && !/^\|---/' "$page"
}
broken()
{
	rows '| rule | broken as | found as |'
}
planted()
{
	rows '| rule | fault | found as |'
}
tested()
{
	rows '| rule | tests |'
}
# What stands in a column between `backticks`.
names()
{
	cut -d'|' -f3 | grep -o '`[^`]*`' | tr -d '`' | sort -u
}
compare() # WHAT, and what the page and the code have
{
	while read -r name; do
		complain "there is no $1 $name"
	done < <(comm -23 "$2" "$3")
	while read -r name; do
		complain "$1 $name is in no table"
	done < <(comm -13 "$2" "$3")
}

for rule in $(grep -oE '^- \*\*[A-Z][0-9]+' "$page" | grep -oE '[A-Z][0-9]+'); do
	{ broken; planted; tested; } | cut -d'|' -f2 | grep -qw "$rule" ||
		complain "$rule is in no table of what checks it"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
broken | names > "$work/broken"
for model in "${models[@]}"; do
	sed -n 's/^ \* check .*-DMUTANT_\([A-Z0-9_]*\).*/\1/p' "tests/model/$model.pml"
done | sort -u > "$work/mutants"
compare "broken rule" "$work/broken" "$work/mutants"
planted | names > "$work/planted"
grep -oE '\{ "[a-z0-9-]+", (OPEN|SIM)_BUG' tests/open/simulate.c | cut -d'"' -f2 |
	sort > "$work/faults"
compare "planted fault" "$work/planted" "$work/faults"
while read -r test; do
	grep -q "^Test([a-z_]*, ${test#*:})" "tests/${test%:*}.c" 2> /dev/null ||
		complain "there is no test $test"
done < <(tested | names)
[ $failed -eq 0 ] && echo "$(wc -l < "$work/broken") rules broken in models, $(
	wc -l < "$work/planted") faults in the simulation, $(tested | names | wc -l) tests"
exit $failed
