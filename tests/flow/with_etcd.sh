#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# with_etcd.sh PROGRAM [ARGUMENT]...: run it with an etcd of one member, on loopback, as
# its registry.
set -euo pipefail

for program in etcd etcdctl setpriv; do
	if ! command -v "$program" > /dev/null; then
		echo "skipped: $program is not installed"
		exit 77
	fi
done

tmp=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo /tmp)" dfi-etcd-XXXXXX)
etcd=
stop()
{
	[ -z "$etcd" ] || kill -KILL "$etcd" 2> /dev/null || :
	rm -rf "$tmp"
}
trap stop EXIT

# Below the ports that the kernel gives to connections.
port=$((20000 + $$ * 2 % 10000))
setpriv --pdeathsig=KILL etcd --data-dir "$tmp/data" \
	--listen-client-urls "http://127.0.0.1:$port" \
	--advertise-client-urls "http://127.0.0.1:$port" \
	--listen-peer-urls "http://127.0.0.1:$((port + 1))" > "$tmp/log" 2>&1 &
etcd=$!
until ETCDCTL_API=3 etcdctl --endpoints "127.0.0.1:$port" get none > /dev/null 2>&1; do
	if ! kill -0 "$etcd" 2> /dev/null; then
		tail "$tmp/log"
		exit 1
	fi
	sleep 0.1
done
DFI_TEST_REGISTRY=etcd:http://127.0.0.1:$port "$@"
