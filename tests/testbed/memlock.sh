#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# memlock.sh BUILD_DIR: in a virtual machine with a low limit on locked memory, flows that
# need more are refused, and others go on.
set -euo pipefail

script=$(realpath "$0")
limit_kib=8192

if [ "${1-}" != --inside ]; then
	exec "${script%/*}/testbed" up 1 --cpus 1 --timeout 840 \
		--memlock $limit_kib -- \
		bash "$script" --inside "$(realpath "$1")"
fi

cd "$2"
scratch=$(mktemp -d)
export DFI_REGISTRY=unix:$scratch/registry DFI_TRANSPORT=verbs
export DFI_OPEN_TIMEOUT=20000
bin/dfi-registry --listen "$DFI_REGISTRY" &
trap 'kill $!; rm -rf "$scratch"' EXIT
until [ -S "$scratch/registry" ]; do
	kill -0 $!
	sleep 0.1
done
tests/proc/memlock $((limit_kib * 1024))
