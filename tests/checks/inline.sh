#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# inline.sh LANGUAGE STANDARD COMPILER: the inline functions compile without a
# warning in a program that moves local tuples of many sizes. If it is optimised
# the compiler knows their sizes and compares them with all ways to copy a tuple;
# if not, it also looks at code that can't be reached, whatever the sizes.
# For example: inline.sh c++ c++17 g++.
set -euo pipefail
cd "$(dirname "$0")/../.."

language=$1 standard=$2 compiler=$3
if [ -z "$compiler" ]; then
	echo "skipped: there is no compiler for $language"
	exit 77
fi

program() # SIZE...: functions for each size
{
	local size

	echo '#include <dfi/dfi.h>'
	cat tests/checks/inline.h
	for size; do
		echo "MOVE(char, $size, $size)"
		echo "MOVE_PARTS(char, $size)"
		[ $((size % 4)) != 0 ] || echo "MOVE(uint32_t, $size, $size / 4)"
		[ $((size % 8)) != 0 ] || echo "MOVE(uint64_t, $size, $size / 8)"
	done
}

compile() # LEVEL SIZE...
{
	program "${@:2}" | "$compiler" -x "$language" -std="$standard" "$1" -c \
		-o /dev/null -Iinclude -Wall -Wextra -Wpedantic -Wconversion \
		-Werror -
}

compile -O0 1 2 3 4 7 8 12 16 24 32 33 64 72
# All that a tuple's end can be, and those beside a multiple of what is copied at
# once. In a short run, those beside a power of two.
# shellcheck disable=SC2046 # several words
if [ -z "${DFI_TEST_SHORT-}" ]; then
	compile -O2 $(seq 33) 36 40 44 47 48 49 52 55 56 57 60 63 64 65 68 71 72
else
	compile -O2 1 2 3 4 5 7 8 9 15 16 17 31 32 33 63 64 65
fi
