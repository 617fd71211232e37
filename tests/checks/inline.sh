#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# inline.sh LANGUAGE STANDARD COMPILER: the inline functions compile without a
# warning in a program that moves local tuples of any size. If it is optimised
# the compiler knows their sizes and compares them with all ways to copy a tuple;
# if not, it looks at code that can't be reached, too.
# For example: inline.sh c++ c++17 g++.
set -euo pipefail
cd "$(dirname "$0")/../.."

language=$1 standard=$2 compiler=$3
if [ -z "$compiler" ]; then
	echo "skipped: there is no compiler for $language"
	exit 77
fi

program() # functions for each size
{
	local size

	echo '#include <dfi/dfi.h>'
	cat tests/checks/inline.h
	for size in $(seq 72); do
		echo "MOVE(char, $size, $size)"
		echo "MOVE_PARTS(char, $size)"
		[ $((size % 4)) != 0 ] || echo "MOVE(uint32_t, $size, $size / 4)"
		[ $((size % 8)) != 0 ] || echo "MOVE(uint64_t, $size, $size / 8)"
	done
}

for level in -O0 -O2; do
	program | "$compiler" -x "$language" -std="$standard" $level -c \
		-o /dev/null -Iinclude -Wall -Wextra -Wpedantic -Wconversion \
		-Werror -
done
