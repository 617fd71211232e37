#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# demo.sh [--admindir FOLDER] [SIZE]: the radix join on real tables, made from this
# machine's Debian package database, or the one in FOLDER, and checked with sqlite3,
# and on synthetic relations of SIZE tuples each (default 16M, less if memory is
# short; 0: none), beside the same join without flows. Needs no network. BIN names
# the folder of the programs (default build/bin). Exits with 1 if a result is wrong.
set -euo pipefail
export LC_ALL=C

cd "$(dirname "$0")/../.."
bin=${BIN:-build/bin}
join=$bin/radix_join
repeats=5

die()
{
	printf 'demo: %s\n' "$*" >&2
	exit 1
}

say()
{
	printf '\n== %s\n\n' "$*"
}

database=()
while [ $# -gt 0 ]; do
	case $1 in
	--admindir)
		[ $# -ge 2 ] || die "--admindir needs a folder"
		database=(--admindir "$2")
		shift 2 ;;
	-*)
		die "there is no option $1: usage: demo.sh [--admindir FOLDER] [SIZE]" ;;
	*)
		break ;;
	esac
done

[ -x "$join" ] || die "there is no $join: run scripts/build first"
for program in dpkg-query sqlite3 awk; do
	command -v "$program" > /dev/null || die "$program is not installed"
done
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# --- Real tables -------------------------------------------------------------

# Between the fields and behind each record of what dpkg-query prints: bytes that
# separate such things, and that no field has. A field may have tabs or lines.
field=$'\037' record=$'\036'

# What is no UTF-8 is left out: the join would refuse it.
to_csv()
{
	{ iconv -c -f UTF-8 -t UTF-8 || :; } | awk -v FS="$field" -v RS="$record" '{
		for (i = 1; i <= NF; i++) {
			gsub(/"/, "\"\"", $i)
			printf "%s%s", (i > 1 ? "," : ""),
				($i == "" ? "" : "\"" $i "\"")
		}
		print ""
	}'
}

# Print fields of the installed packages. dpkg-query fails where there are none.
packages() # FIELD...
{
	local format="\${db:Status-Status}" name

	for name in "$@"; do
		format+=$field$name
	done
	{ dpkg-query "${database[@]}" --show --showformat "$format$record" \
		2> "$tmp/dpkg.err" || grep -q '^dpkg-query: no packages found' \
		"$tmp/dpkg.err" || die "$(cat "$tmp/dpkg.err")"; } |
		awk -v FS="$field" -v RS="$record" -v ORS="$record" \
			'sub(/^installed\037/, "")'
}

header() # NAME...
{
	local IFS=$field

	printf '%s%s' "$*" "$record"
}

# A size that is no integer is none: the cell is empty.
make_packages()
{
	header name version section source installed_kib
	packages '${Package}' '${Version}' '${Section}' '${source:Package}' \
		'${Installed-Size}' |
		awk -v FS="$field" -v OFS="$field" -v RS="$record" -v ORS="$record" '{
			if ($5 !~ /^[0-9]+$/ || length($5) > 15)
				$5 = ""
			print
		}'
}

# One row for each package that a package depends on. Of "libc6 (>= 2.36),
# debconf | debconf-2.0, python3:any" that is libc6, debconf, debconf-2.0 and
# python3: the alternatives of a dependency are rows of their own.
make_edges()
{
	header package kind alternative needs
	{
		packages '${Package}' depends '${Depends}'
		packages '${Package}' pre-depends '${Pre-Depends}'
	} | awk -v FS="$field" -v OFS="$field" -v RS="$record" -v ORS="$record" '{
		n = split($3, dependencies, ",")
		for (i = 1; i <= n; i++) {
			m = split(dependencies[i], names, "|")
			for (j = 1; j <= m; j++) {
				# Versions, architectures, build profiles.
				sub(/[(\[<].*/, "", names[j])
				sub(/:[a-z0-9-]+[ \t\n]*$/, "", names[j])
				gsub(/[ \t\n]/, "", names[j])
				if (names[j] != "")
					print $1, $2, j, names[j]
			}
		}
	}'
}

say "Real tables: this machine's packages, and what they depend on"
make_packages | to_csv > "$tmp/packages.csv"
make_edges | to_csv > "$tmp/edges.csv"
sql()
{
	sqlite3 -separator ' ' "$tmp/check.db" "$@"
}

# As the join sees them: empty cells are nulls.
nulls=()
for column in version section source installed_kib; do
	nulls+=("update packages set $column = null where $column = ''")
done
sql 'create table packages (name text, version text, section text, source text,
		installed_kib integer)' \
	'create table edges (package text, kind text, alternative integer,
		needs text)' \
	".import --csv --skip 1 '$tmp/packages.csv' packages" \
	".import --csv --skip 1 '$tmp/edges.csv' edges" "${nulls[@]}"
printf 'packages  %7d rows, %d without a size\nedges     %7d rows\n\n' \
	$(sql "select count(*), count(*) - count(installed_kib) from packages") \
	$(sql "select count(*) from edges")

real=(--nodes 2 --inner-csv "$tmp/packages.csv" --inner-key name
	--outer-csv "$tmp/edges.csv" --outer-key needs
	--sum inner:installed_kib)

# A member of a JSON object, on any level: the first of that name.
member() # NAME FILE
{
	sed -n "s/^ *\"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$2" |
		head -n 1
}

"$join" "${real[@]}" --output "$tmp/joined.csv" --json > "$tmp/real.json" ||
	die "the join failed"
count=$(member matches "$tmp/real.json")
sum=$(member sum "$tmp/real.json")
printf 'radix_join in 2 processes: %s matches, sum of their sizes %s KiB, in %.1f ms\n' \
	"$count" "$sum" \
	"$(awk "BEGIN { print $(member seconds "$tmp/real.json") * 1000 }")"

sql "create table joined (\"inner.name\" text, \"inner.version\" text,
	\"inner.section\" text, \"inner.source\" text,
	\"inner.installed_kib\" integer, \"outer.package\" text,
	\"outer.kind\" text, \"outer.alternative\" integer,
	\"outer.needs\" text)" \
	".import --csv --skip 1 '$tmp/joined.csv' joined"
expected=$(sql "select count(*), coalesce(sum(installed_kib), 0) from packages
	join edges on name = needs")
printf 'sqlite3:                   %s matches, sum of their sizes %s KiB\n' \
	"${expected% *}" "${expected#* }"
same=$(sql "select count(*) = $count and coalesce(sum(installed_kib), 0) = $sum
	from packages join edges on name = needs")
[ "$same" = 1 ] || die "the results DIFFER"
rows=$(sql "select count(*) from (
	select name, coalesce(version, ''), coalesce(installed_kib, ''), package,
	kind, alternative from packages join edges on name = needs except
	select \"inner.name\", \"inner.version\", \"inner.installed_kib\",
	\"outer.package\", \"outer.kind\", \"outer.alternative\" from joined)")
[ "$rows" = 0 ] || die "$rows joined rows are MISSING from the output"
[ "$(sql "select count(*) from joined")" = "$count" ] ||
	die "the output has not $count rows"
printf 'Equal: count, sum and the joined rows.\n\nThe most needed packages, by the joined rows:\n'
sql "select '  ' || printf('%6d', count(*)) || '  ' ||
	\"inner.name\" || ' ' || \"inner.version\" from joined
	group by \"inner.name\", \"inner.version\"
	order by count(*) desc, 1 limit 5"

# --- Synthetic relations -----------------------------------------------------

sizes=(16M 4M 1M)
[ $# -eq 0 ] || sizes=("$1")
[ "${sizes[0]}" != 0 ] || exit 0

# What goes on, on a terminal: runs take seconds, and on a busy machine minutes.
status() # [TEXT]
{
	[ ! -t 2 ] || printf '\r\033[K%s' "$*" >&2
}

# Run number I of the join over flows, then of the one without. The join knows what it
# needs and which limit leaves how much: 1 if it refuses for want of memory.
run_both() # I
{
	local run=("$join" --inner "$size" --outer "$size" --nodes 2 --threads 1 --json)
	local what="Joining $size x $size tuples, run $1 of $repeats"
	local ok=yes

	status "$what, over flows"
	"${run[@]}" > "$tmp/flows.$1" 2> "$tmp/err" || ok=
	if [ $ok ]; then
		status "$what, in threads"
		"${run[@]}" --baseline local > "$tmp/local.$1" 2>> "$tmp/err" || ok=
	fi
	status
	if [ $ok ]; then
		cat "$tmp/err" >&2
		return
	fi
	! grep -q 'MiB of memory, but' "$tmp/err" || return 1
	cat "$tmp/err" >&2
	die "the join failed"
}

# What is left, as the join has said.
memory_left()
{
	sed -n 's/.* MiB of memory, but \([0-9]* MiB\) are left\(.*\): [^:]*$/\1 of memory are left\2/p' \
		"$tmp/err"
}

for size in "${sizes[@]}"; do
	if run_both 1; then
		break
	fi
	left=$(memory_left)
	printf '\nOnly %s: too little for %s tuples.\n' "$left" "$size"
	size=
done
[ "$size" ] || die "too little memory: $left"

# Columns of a run's report: seconds, phases in ms, M tuples/s, GiB/s.
row() # NAME FILE
{
	awk -v name="$1" -v seconds="$(member seconds "$2")" \
		-v partition="$(member partition "$2")" \
		-v probe="$(member build_probe "$2")" \
		-v tuples="$(member tuples_per_second "$2")" \
		-v gib="$(member gib_per_second "$2")" 'BEGIN {
		printf "%-22s %9.1f %12.1f %12.1f %13.1f %10.2f\n", name,
			seconds * 1000, partition * 1000, probe * 1000,
			tuples / 1e6, gib }'
}

# The run with the median time, of those in the files.
median() # FILE...
{
	local file
	for file in "$@"; do
		echo "$(member seconds "$file") $file"
	done | sort -g | awk '{ line[NR] = $2 } END { print line[int((NR + 1) / 2)] }'
}

say "Synthetic: $size x $size tuples of 16 bytes, $repeats runs of each in turn"
for i in $(seq "$repeats"); do
	[ "$i" = 1 ] || run_both "$i" || die "too little memory: $(memory_left)"
	for file in "$tmp/flows.$i" "$tmp/local.$i"; do
		[ "$(member verified "$file")" = true ] ||
			die "a result is WRONG"
	done
	[ "$(member checksum "$tmp/flows.$i")" = \
		"$(member checksum "$tmp/local.$i")" ] ||
		die "the two results DIFFER"
done
flows=$(median "$tmp"/flows.*)
local=$(median "$tmp"/local.*)
printf '%-22s %9s %12s %12s %13s %10s\n' 'median run' 'ms' 'partition' \
	'build+probe' 'M tuples/s' 'GiB/s'
row 'DFI, 2 processes' "$flows"
row 'baseline, 2 threads' "$local"
printf '\n%s matches, checksum %s: verified in all runs.\n' \
	"$(member matches "$flows")" "$(member checksum "$flows")"
awk -v flows="$(member seconds "$flows")" \
	-v local="$(member seconds "$local")" 'BEGIN {
	printf "Two processes over DFI take %.2f times the time of the same",
		flows / local
	print " kernels in two threads." }'
[ "$(nproc)" -ge 2 ] ||
	echo "(There is one processor only: the workers take turns.)"
load=$(cut -d ' ' -f 1 /proc/loadavg)
awk -v load="$load" -v n="$(nproc)" 'BEGIN { if (load > n + 0.5)
	printf "(The machine is busy, load %s: the times mean little.)\n", load }'
