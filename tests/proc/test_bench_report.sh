#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_bench_report.sh BIN_DIR: dfi-bench report makes a page of results, in which no text
# becomes markup or a command.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bin=$1
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT
bench=$bin/dfi-bench source=$(cd "$(dirname "$0")/../.." && pwd)
cd "$tmp"

reports() # FOLDER
{
	timeout $wait_limit "$bench" report "$1" > out 2> err || fail "report: $(cat out)"
}

has() # FILE TEXT...
{
	local text

	for text in "${@:2}"; do
		grep -qF -- "$text" "$1" || fail "no '$text' in $1: $(head -c 4000 "$1")"
	done
}

# A copy without other programs beside it skips what needs them.
mkdir alone
cp "$bench" alone
timeout $wait_limit alone/dfi-bench run E8 E16 sequencer \
	--seconds 0.001 --repeat 1 --out results > out 2> err || fail "run: $(cat out err)"
reports results
has out results/report.html results/report.md
has results/report.html '<!DOCTYPE html>' 'prefers-color-scheme:dark' 'width=device-width' \
	'href="#memory"' 'id="memory"' '<b>Paper.</b> With rings of 32 segments' \
	'<td class="agrees">agrees</td>' '<td class="skipped">skipped</td>' fetch-add \
	'dfi-bench memory --nodes' '</html>'
has results/report.md '[Memory of the rings of a node](#memory)' '**Paper.** With rings of 32' \
	'| agrees |' '| skipped |' fetch-add '    dfi-bench memory --nodes'
# Nothing is loaded from elsewhere.
! grep -E 'src="|<link|@import|url\(' results/report.html ||
	fail "the page needs other files"
[ "$(grep -c '<table>' results/report.html)" = "$(grep -c '</table>' results/report.html)" ] ||
	fail "a table has no end"

drawn=no
! command -v gnuplot > out || drawn=yes
if [ $drawn = yes ]; then
	has results/report.html '<svg' '</svg>' 'Dashed: fetch-add.'
	has results/report.md '![](B6-sequencer.svg)'
	# An experiment may have several drawings.
	mkdir several
	"$bench" scale --counts 1,3 -D 2ms --repeat 1 --iterations 100 --json \
		> several/B11-scale.json 2> err || fail "scale: $(cat err)"
	reports several
	has several/report.md '![](B11-scale.svg)' '![](B11-scale-poll_ns.svg)'
	has results/B6-sequencer.svg prefers-color-scheme currentColor
	! grep -q 'rgb( *1, *1, *1)' results/B6-sequencer.svg ||
		fail "the colour of text is fixed"
fi

# No two rows of an experiment have the same name, and one over a modelled link says which.
for folder in "$source"/docs/benchmarks/*/; do
	rm -rf named
	mkdir named
	cp "$folder"/*.json named
	PATH=$tmp/none "$bench" report named > out 2> err || fail "report $folder: $(cat err)"
	awk -F ' [|] ' '/^## / { split("", seen); chapter = $0; rows = 0 }
		/^[|] What [|]/ { rows = 1 }
		rows && /^[|] [^-]/ {
			if ($1 in seen)
				print chapter ": " $1
			seen[$1]
			if ($6 ~ /modelled link/ && $1 !~ /link of [0-9]+ MiB\/s/)
				print chapter ": no link: " $1
			n++
		}
		/^$/ { rows = 0 }
		END { if (n < 100) print "there are " n " rows" }' named/report.md > bad
	[ ! -s bad ] || fail "names of rows in $folder: $(cat bad)"
done

# Results of another machine name it, in text and below drawings.
if [ $drawn = yes ]; then
	sed -e 's/"name": "[^"]*",/"name": "elsewhere",/;t' -e 's/"cpu": "[^"]*"/"cpu": "Other"/' \
		results/B6-sequencer.json > elsewhere
	mkdir machines
	cp results/E8-memory.json machines
	mv elsewhere machines/B6-sequencer.json
	reports machines
	has machines/report.md '**Another machine.** elsewhere: Other' ' On elsewhere. Dashed'
fi

# A statement that differs has its reason, if one is known.
sed 's/"verdict": "agrees"/"verdict": "differs", "why": "<Small> machines."/' \
	results/E8-memory.json > reason
mkdir reasons
mv reason reasons/E8-memory.json
reports reasons
has reasons/report.html '<b>Where it differs.</b> &lt;Small&gt; machines.'
! grep -qF 'Where it differs.' results/report.html || fail "a reason for what agrees"

# Text of a result is text, for browsers, Markdown and gnuplot.
sed -i -e 's/"title": "Numbers/"title": "<script>|Numbers/' \
	-e "s/one by one/one' by\\\\nsystem(\"touch drawn_by_command\")\\\\n#/" \
	results/B6-sequencer.json
sed -i "s/system(\"\([a-z_ ]*\)\")/system(\\\\\"\1\\\\\")/" results/B6-sequencer.json
reports results
has results/report.html '&lt;script&gt;|Numbers'
! grep -q '<script' results/report.html || fail "the page has a script"
has results/report.md '\<script\>\|Numbers'
[ ! -e drawn_by_command ] || fail "gnuplot ran a command of a result"

# Without gnuplot there is a page, which says why it has no drawings.
mkdir none
rm results/*.svg 2> /dev/null || :
PATH=$tmp/none "$bench" report results > out 2> err || fail "no page without gnuplot"
has err 'there is no gnuplot'
has results/report.html 'No drawings.' '<table>'
! grep -q '<svg' results/report.html || fail "a drawing without gnuplot"

# A result that is wrong, and one that can't be read.
sed -i '0,/"verified": true/s//"verified": false/' results/B6-sequencer.json
reports results
has results/report.html '<td class="failed">failed</td>'
echo '{' > results/E8-memory.json
rc=0
"$bench" report results > out 2> err || rc=$?
[ $rc = 1 ] || fail "status $rc with a damaged file"
has err 'E8-memory.json has no results'
has results/report.html 'B6'

for folder in none missing; do
	rc=0
	"$bench" report $folder > out 2> err || rc=$?
	[ $rc = 1 ] || fail "report $folder: status $rc"
	has err "$folder has no results of dfi-bench run --out $folder"
done
rc=0
"$bench" report > out 2> err || rc=$?
[ $rc = 64 ] || fail "report without a folder: status $rc"
