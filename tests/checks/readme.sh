#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The program that README.md shows is examples/hello_flow.c, and is short.
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
