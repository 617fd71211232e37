#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# tiny_shm.sh BIN_DIR: a flow runs where /dev/shm has room for nothing, and
# where there is none: rings are in memfds.
set -euo pipefail
bin=$1

in_namespace() # COMMAND: as root of namespaces of its own
{
	if [ "$(id -u)" -eq 0 ]; then
		unshare --mount --propagation private bash -c "$1"
	else
		unshare --user --map-root-user --mount \
			--propagation private bash -c "$1"
	fi
}

tiny='mount -t tmpfs -o size=4k tmpfs /dev/shm'
if ! in_namespace "$tiny" 2>/dev/null; then
	echo "skipped: no namespace of mounts may be made here"
	exit 77
fi
# The whole page is taken, so that a single byte in it would fail.
in_namespace "$tiny && head -c 4096 /dev/zero > /dev/shm/full &&
	! head -c 1 /dev/zero > /dev/shm/more 2>/dev/null &&
	'$bin/hello_flow'"
in_namespace "mount -t tmpfs -o size=4k,mode=000 tmpfs /dev/shm &&
	mount -o remount,ro /dev/shm && '$bin/hello_flow'"
echo "flows run without /dev/shm"
