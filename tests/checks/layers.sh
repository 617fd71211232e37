#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# layers.sh [ROOT [BUILD]]: includes and calls point one way, code keeps to the words it
# may use, and files and contracts to their sizes (CONTRIBUTING.md, "Rules"). Prints
# file:line: rule for each violation. Calls are looked at in the objects of BUILD, inside
# src (floors.sh).
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
build=${2:+$(cd "$2" && pwd)}
cd "${1:-$here/../..}"
. "$here/code_of.sh"

violations=0

report() # LOCATION RULE
{
	echo "$1: $2"
	violations=$((violations + 1))
}

files_in() # DIRECTORY...: its C files
{
	local dir

	for dir in "$@"; do
		if [ -d "$dir" ]; then
			find "$dir" -name '*.[ch]'
		fi
	done | sort
}

# included: the file that #include "name" in a file of dir means, or nothing. In
# this shell, as there are thousands.
resolve() # DIR NAME
{
	local stem proto

	included=
	if [ -f "$1/$2" ]; then
		included=$1/$2
		while [[ $included == */../* ]]; do
			stem=${included%%/../*}
			[[ $stem == */* ]] && stem=${stem%/*}/ || stem=
			included=$stem${included#*/../}
		done
	elif [ -f "src/$2" ]; then
		included=src/$2
	elif [ -f "$2" ]; then
		included=$2
	elif [[ $2 == *.pb-c.h ]]; then # stands beside its .proto
		stem=${2##*/}
		for proto in src/*/*/"${stem%.pb-c.h}.proto"; do
			[ ! -f "$proto" ] || included=${proto%.proto}.pb-c.h
		done
	fi
}

# May a file include another of the project's files? Each case lists what the
# layer may include beside itself.
allowed() # FILE INCLUDED
{
	local file=$1 included=$2

	case $file in
	src/*) # floors.sh knows more
		[[ $included == src/* ]] ;;
	common/*)
		[[ $included == common/* ]] ;;
	tests/unit/* | tests/stress/* | tests/fuzz/* | tests/transport/* | \
		tests/proc/other_module.c | tests/checks/instructions_verbs.c)
		[[ $included == src/* || $included == bench/* ||
			$included == common/* || $included == examples/* ||
			$included == tests/* ]] ;;
	tests/consensus/*)
		[[ $included == examples/consensus/* ||
			$included == tests/consensus/* ||
			$included == tests/linearizability/* ]] ;;
	tests/open/*)
		[[ $included == src/flows/open/* ||
			$included == tests/open/* ]] ;;
	tests/proc/*)
		[[ $included == tests/proc/* ||
			$included == tests/chaos/lateness.h ]] ;;
	bench/consensus_experiment/*)
		[[ $included == bench/consensus_experiment/* ||
			$included == common/* ||
			$included == examples/consensus/load*.h ]] ;;
	tools/* | bench/*)
		[[ ${included%/*} == "${file%/*}" ||
			$included == common/* ]] ;;
	tests/*)
		[[ ${included%/*} == "${file%/*}" ]] ;;
	examples/*)
		[[ ${included%/*} == "${file%/*}" || $included == common/* ||
			$included == examples/common/* ]] ;;
	*)
		false ;;
	esac
}

check_includes()
{
	local file line name included

	while IFS=: read -r file line name; do
		case $name in
		'<curl/'* | '<jansson.h>')
			[[ $file != src/* || $file == src/registry/etcd/* ]] ||
				report "$file:$line" \
					"only src/registry/etcd may include $name" ;;
		'<rdma/fabric.h>' | '<rdma/fi_'*)
			[[ $file == src/transport/ofi/* ||
				$file == bench/rival_fabric*.c ]] ||
				report "$file:$line" \
					"only src/transport/ofi may include $name" ;;
		'<infiniband/'* | '<rdma/'*)
			[[ $file == src/transport/verbs/* ]] ||
				report "$file:$line" \
					"only src/transport/verbs may include $name" ;;
		'<openssl/'*)
			[[ $file != src/* || $file == src/security/* ]] ||
				report "$file:$line" \
					"only src/security may include $name" ;;
		'<dfi/'*) ;;
		'<'*)
			[[ $file != include/* || $name != */* ]] ||
				report "$file:$line" \
					"public headers include only the C library, not $name" ;;
		'"'*)
			if [[ $file == include/* ]]; then
				report "$file:$line" \
					"public headers include <dfi/...>, not $name"
				continue
			fi
			name=${name//\"/}
			resolve "${file%/*}" "$name"
			if [ -z "$included" ]; then
				report "$file:$line" "there is no $name"
			elif ! allowed "$file" "$included"; then
				report "$file:$line" \
					"${file%/*} may not include $included"
			fi ;;
		*)
			report "$file:$line" "cannot read this #include: $name" ;;
		esac
	done < <(files_in include src common tools bench examples tests |
		xargs -r awk '
			/^[ \t]*#[ \t]*include/ {
				sub(/^[ \t]*#[ \t]*include[ \t]*/, "")
				name = $0
				if (match($0, /^(<[^>]*>|"[^"]*")/))
					name = substr($0, 1, RLENGTH)
				print FILENAME ":" FNR ":" name
			}')
}

# Report the lines of src and include/dfi whose code matches, except in files
# that match the pattern UNLESS.
forbid() # RULE REGEX [UNLESS]
{
	local file line rest

	while IFS=: read -r file line rest; do
		if [[ -n ${3-} && $file =~ $3 ]]; then
			continue
		fi
		report "$file:$line" "$1"
	done < <(grep -E "^[^:]*:[0-9]+.*$2" <<< "$code" || true)
}

check_words()
{
	local code begin='(^|[^A-Za-z0-9_.>])' word='(^|[^A-Za-z0-9_])'
	local end='([^A-Za-z0-9_]|$)'

	mapfile -t files < <(files_in include src)
	code=$(code_of "${files[@]}")

	# A line's code begins after its second colon.
	begin=${begin/^/:} word=${word/^/:}
	forbid "volatile is not a synchronisation: use base/atomic.h" \
		"$word(volatile|__volatile__)$end"
	forbid "no packed structs: pin layouts with _Static_assert" \
		"$word(packed|__packed__)$end"
	forbid "fences live in src/base" \
		"$word(atomic_thread_fence|__atomic_thread_fence|__sync_synchronize)$end" \
		'^src/base/'
	forbid "wait on a condition with a deadline, do not sleep" \
		"$begin(usleep|sleep) *\\("
	forbid "a library does not end its process: return an error" \
		"$begin(abort|exit|_exit|_Exit|quick_exit) *\\("
	forbid "a library does not print: use dfi__log() or dfi__fail()" \
		"$begin(printf|vprintf|puts|putchar|perror) *\\("
	forbid "a library does not print: use dfi__log() or dfi__fail()" \
		"$word(stdout|stderr)$end" '^src/base/log\.c$'
}

# Programs escape what users typed.
check_programs()
{
	local code files word='(:|[^A-Za-z0-9_])'

	mapfile -t files < <(files_in tools bench examples common)
	code=$(code_of "${files[@]}")
	forbid "use usage_error() of common/usage.h, which escapes what users typed" \
		"${word}argp_error *\\(" '^common/usage\.c$'
}

# What opens a descriptor is inside of file_up(), on its line or the one before;
# what keeps it in a struct, or copies it out of a message, has file_up() in one
# of the next three lines. Other libraries' functions that open some are called
# while 0, 1 and 2 are taken, by their function or by all that call it.
check_descriptors()
{
	local line files

	mapfile -t files < <(files_in src)
	while IFS= read -r line; do
		report "$line" "put it into file_up() of base/files.h, or call it between dfi__files_take_standard() and dfi__files_free_standard(), so that it is never 0, 1 or 2"
	done < <(code_of "${files[@]}" | awk '
		# Whether a function is called only while the numbers are taken.
		function is_covered(fn, depth, n, i, callers)
		{
			if (depth > 9 || !(fn in called))
				return 0
			n = split(bare[fn], callers, " ")
			for (i = 1; i <= n; i++)
				if (!is_covered(callers[i], depth + 1))
					return 0
			return 1
		}
		{
			match($0, /^[^:]*:[0-9]+:/)
			place = substr($0, 1, RLENGTH - 1)
			code = substr($0, RLENGTH + 1)
			file = place
			sub(/:.*/, "", file)
		}
		code ~ /^[a-z].*[a-z0-9_]\(/ {
			match(code, /[a-z0-9_]+\(/)
			fn = file ":" substr(code, RSTART, RLENGTH - 1)
		}
		code ~ /^}/ { held = inside = 0 }
		code ~ /dfi__files_take_standard\(/ { held = 1 }
		code ~ /dfi__files_free_standard\(/ { held = 0 }
		inside {
			for (rest = code; match(rest, /[a-z0-9_]+\(/);
			     rest = substr(rest, RSTART + RLENGTH)) {
				callee = file ":" substr(rest, RSTART, RLENGTH - 1)
				called[callee] = 1
				if (!held)
					bare[callee] = bare[callee] " " fn
			}
		}
		code ~ /^{/ { inside = 1 }
		{
			up = code ~ /file_up\(/
			if (up)
				delete later
			for (first in later)
				if (NR - later[first] > 3) {
					open[first] = function_of[first]
					delete later[first]
				}
			if (file !~ /^src\/base\/files\.c$/ && !held && !up) {
				if (code ~ /(^|[^A-Za-z0-9_.>])(socket|socketpair|accept4?|pipe2?|dup|memfd_create|shm_open|mkostemp|mkstemp|epoll_create1?|eventfd|signalfd|timerfd_create|inotify_init1?|open|openat|fopen|opendir)\(/ ||
				    code ~ /F_DUPFD|SYS_pidfd_open/) {
					if (before !~ /file_up\(/)
						open[place] = fn
				} else if (code ~ /ibv_create_comp_channel\(|[,=] *CMSG_DATA\(/) {
					later[place] = NR
					function_of[place] = fn
				} else if (code ~ /rdma_create_event_channel\(|rdma_create_id\(NULL,|ibv_open_device\(|event_base_new(_with_config)?\(/)
					open[place] = fn
			}
			before = code
		}
		END {
			for (place in later)
				open[place] = function_of[place]
			for (place in open)
				if (!is_covered(open[place]))
					print place
		}' | sort -t: -k1,1 -k2,2n)
}

# In comments too, but not in this file, which has to say the words.
check_todos()
{
	local file line text

	while IFS=: read -r file line text; do
		if [[ $text =~ (TO''DO) && ! $text =~ TO''DO\(#[0-9]+\) ]]; then
			report "$file:$line" "say which issue: TO""DO(#12)"
		elif [[ $text =~ (FIX''ME|XX''X) ]]; then
			report "$file:$line" "use TO""DO(#12) with an issue number"
		fi
	done < <(find include src common tools bench examples tests cmake scripts \
			CMakeLists.txt -type f 2> /dev/null | sort |
		xargs -r grep -nEH '\b(TO''DO|FIX''ME|XX''X)\b' || true)
}

# What a reader takes in at once: files, public headers, and what they say about a call.
check_sizes()
{
	local line

	while IFS= read -r line; do
		report "${line%% *}" "${line#* }"
	done < <(
		files_in src | grep '\.c$' | xargs -r wc -l |
			awk '$2 != "total" && $1 > 600 { print $2 " has " $1 " lines, of 600" }'
		files_in include | xargs -r wc -l |
			awk '$2 != "total" && $1 > 250 { print $2 " has " $1 " lines, of 250" }'
		files_in include src | grep '\.h$' | xargs -r awk '
			FNR == 1 { lines = 0 }
			/^\/\*/ { lines = inside = 0 }
			/^\/\*$/ { inside = 1; next }
			/^ \*\/$/ { inside = 0; next }
			inside { lines++; next }
			/^[a-z_A-Z].*\(/ && lines > 12 {
				print FILENAME ":" FNR " a contract of " lines \
					" lines: 12 are enough, or move reasons to docs"
			}
			{ lines = 0 }')
}

check_includes
check_sizes
check_words
check_programs
check_descriptors
check_todos
"$here/floors.sh" . "$build" || violations=$((violations + 1))

if [ "$violations" -gt 0 ]; then
	echo "$violations violations"
	exit 1
fi
echo "includes and words are in order"
