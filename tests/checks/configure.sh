#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# configure.sh CMAKE GENERATOR CC: a build folder can be configured a second time, as
# after a change of a CMakeLists.txt, with what the first time has cached.
set -euo pipefail
cd "$(dirname "$0")/../.."

cmake=$1 generator=$2 cc=$3
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

for time in first second; do
	if ! "$cmake" -S . -B "$tmp/build" -G "$generator" \
		-DCMAKE_C_COMPILER="$cc" -DDFI_BUILD_TESTS=ON > "$tmp/log" 2>&1; then
		cat "$tmp/log"
		echo "cannot configure the $time time"
		exit 1
	fi
done
echo "configured twice"
