#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh MODEL [-DNAME...]: search all states of tests/model/MODEL.pml with spin,
# once for each line of its opening comment of the form
#
#   check [-DNAME...] holds|assertion|deadlock|cycle [# why]
#
# holds: nothing is wrong, in any state; else what spin has to find, as what was
# defined breaks a rule. With -DNAME..., the one check of these, and the trace of
# what was found. A search that was cut short, by depth or memory, fails.
#
# A check with PROGRESS among its names looks for cycles without progress (and
# so for livelocks) instead of deadlocks.
#
# DFI_TEST_MUTANTS=N: of the checks that break a rule, only the first N.
#
# Exit status: 0, 1, or 77 where spin or a C compiler is missing.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")"

# Bounds of one search. A search that reaches one says so. The largest model needs two
# thirds of the memory; compressed states would need less, but half more time.
memory_mb=900
depth=1000000

if [ $# -lt 1 ] || [ ! -f "$1.pml" ]; then
	echo "usage: run.sh MODEL [-DNAME...]: one of" *.pml >&2
	exit 1
fi
model=$PWD/$1.pml
shift
only=$*
most_breaks=${DFI_TEST_MUTANTS:-}
if [[ ! $most_breaks =~ ^([1-9][0-9]*)?$ ]]; then
	echo "run.sh: DFI_TEST_MUTANTS is a number from 1, not '$most_breaks'"
	exit 1
fi

for program in spin "${CC:-cc}"; do
	if ! command -v "$program" > /dev/null; then
		echo "skipped: $program is not installed"
		exit 77
	fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# What spin said: one of the verdicts, or what kept it from having one.
verdict_of() # LOG
{
	if grep -qE 'max search depth too small' "$1"; then
		echo "cut short at depth $depth"
	elif grep -qE 'Search not completed|bound|out of memory' "$1" &&
		! grep -qE '^pan:[0-9]+: ' "$1"; then
		echo "cut short at $memory_mb MB"
	elif grep -qE '^pan:[0-9]+: assertion violated' "$1"; then
		echo assertion
	elif grep -qE '^pan:[0-9]+: invalid end state' "$1"; then
		echo deadlock
	elif grep -qE '^pan:[0-9]+: (non-progress|acceptance) cycle' "$1"; then
		echo cycle
	elif grep -qE '^pan:[0-9]+: ' "$1"; then
		grep -m 1 -E '^pan:[0-9]+: ' "$1"
	elif grep -qE 'errors: 0$' "$1"; then
		echo holds
	else
		echo "no verdict"
	fi
}

# Whether one check comes out as it should.
check() # EXPECTED [-DNAME...]
{
	local expected=$1 kind=-DSAFETY search=() optimise=-O2 found states

	shift
	case " $* " in
	*" -DPROGRESS "*) kind="-DNP -DNOFAIR" search=(-l) ;;
	esac
	# Errors are found before compiling for speed would pay.
	[ "$expected" = holds ] || optimise=-O0

	rm -f -- *
	if ! spin -a "$@" "$model" > spin.log 2>&1 || [ ! -f pan.c ]; then
		cat spin.log
		found="not a model"
	elif ! "${CC:-cc}" -w $optimise $kind -DMEMLIM=$memory_mb \
		-o pan pan.c > cc.log 2>&1; then
		cat cc.log
		found="not compiled"
	else
		./pan "${search[@]}" -m$depth > pan.log 2>&1 || true
		found=$(verdict_of pan.log)
		states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' pan.log)
	fi
	printf '%-11s %9s states  %s\n' "$found" "${states:-no}" "${*:-as it is}"
	if [ -n "$only" ] && [ -f "${model##*/}.trail" ]; then
		spin -k "${model##*/}.trail" -p -g "$@" "$model" | tail -n 400
	fi
	if [ "$found" != "$expected" ]; then
		echo "  expected: $expected"
		[ ! -f pan.log ] || grep -E '^(pan:|Warning|error:)' pan.log || true
		return 1
	fi
}

failed=0
n=0
breaks=0
left_out=0
while read -r line; do
	read -r -a words <<< "${line%%#*}"
	last=$((${#words[@]} - 1))
	expected=${words[$last]}
	names=("${words[@]:0:$last}")
	if [ -n "$only" ] && [ "${names[*]}" != "$only" ]; then
		continue
	fi
	if [ "$expected" != holds ]; then
		if [ -z "$only" ] && [ "$breaks" = "$most_breaks" ]; then
			left_out=$((left_out + 1))
			continue
		fi
		breaks=$((breaks + 1))
	fi
	n=$((n + 1))
	check "$expected" "${names[@]}" || failed=$((failed + 1))
done < <(sed -n '/^\/\*/,/^ \*\//s/^ \* check\( .*\)$/\1/p' "$model")

if [ "$n" -eq 0 ]; then
	echo "${model##*/} has no such check${only:+: $only}"
	exit 1
fi
if [ -z "$only" ] && { [ "$breaks" -eq 0 ] || [ "$breaks" -eq "$n" ]; }; then
	echo "${model##*/}: no check that holds, or none with a broken rule"
	exit 1
fi
echo "${model##*/}: $((n - failed)) of $n checks are as they should be"
[ $left_out -eq 0 ] ||
	echo "${model##*/}: DFI_TEST_MUTANTS=$most_breaks leaves $left_out checks out"
[ "$failed" -eq 0 ]
