#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_etcd.sh SETUPS [KILLS]: processes meet and run flows over an etcd of three
# members on loopback while members are killed and come back, KILLS times (by default
# $DFI_TEST_ETCD_KILLS, or 6), at random moments: each process ends well, and all tuples
# arrive. Prints how many flows there were. $DFI_TEST_ETCD_SEED chooses the moments.
set -euo pipefail

setups=$1 kills=${2:-${DFI_TEST_ETCD_KILLS:-6}}
RANDOM=${DFI_TEST_ETCD_SEED:-$(($$ % 32768))}
seed=$RANDOM
flows=4 processes=3

for program in etcd etcdctl setpriv; do
	if ! command -v "$program" > /dev/null; then
		echo "skipped: $program is not installed"
		exit 77
	fi
done

tmp=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo /tmp)" dfi-etcd-XXXXXX)
declare -A pid=()
stop_all()
{
	for i in "${!pid[@]}"; do
		kill -KILL "${pid[$i]}" 2> /dev/null || :
	done
	wait 2> /dev/null || :
	rm -rf "$tmp"
}
trap stop_all EXIT

fail() # TEXT
{
	echo "failed (seed $seed): $1"
	tail -n 5 "$tmp"/err* 2> /dev/null || :
	exit 1
}

# Ports below those that the kernel gives to connections.
base=$((20000 + $$ * 7 % 10000))
cluster='' DFI_REGISTRY=etcd:http://
for i in 0 1 2; do
	cluster+="${cluster:+,}m$i=http://127.0.0.1:$((base + 3 + i))"
	DFI_REGISTRY+="$([ $i -eq 0 ] || echo ,)127.0.0.1:$((base + i))"
done
export DFI_REGISTRY DFI_LEASE=10000 DFI_OPEN_TIMEOUT=60000 ETCDCTL_API=3

start() # MEMBER
{
	setpriv --pdeathsig=KILL etcd --name "m$1" --data-dir "$tmp/m$1" \
		--listen-client-urls "http://127.0.0.1:$((base + $1))" \
		--advertise-client-urls "http://127.0.0.1:$((base + $1))" \
		--listen-peer-urls "http://127.0.0.1:$((base + 3 + $1))" \
		--initial-advertise-peer-urls "http://127.0.0.1:$((base + 3 + $1))" \
		--initial-cluster "$cluster" --initial-cluster-token "$tmp" \
		>> "$tmp/log$1" 2>&1 &
	pid[m$1]=$!
}

answers() # MEMBER
{
	etcdctl --endpoints "127.0.0.1:$((base + $1))" --dial-timeout 2s \
		--command-timeout 2s get none > /dev/null 2>&1
}

await() # MEMBER
{
	local tries=0

	until answers "$1"; do
		[ $((++tries)) -lt 60 ] || fail "member $1 does not answer"
		sleep 0.1
	done
}

for i in 0 1 2; do
	start $i
done
for i in 0 1 2; do
	await $i
done

# Sets of processes, each with its flows, one after the other.
run_sets()
{
	local p n sets=0 children

	while [ ! -e "$tmp/enough" ]; do
		children=()
		for ((p = 0; p < processes; p++)); do
			"$setups" $p $processes 2 2 $flows > "$tmp/out$p" \
				2> "$tmp/err$p" &
			children+=($!)
		done
		for ((p = 0; p < processes; p++)); do
			wait "${children[p]}" || fail "process $p ended with $?"
		done
		n=$(awk -F: '/^tuples:/ { n += $2 } END { print n + 0 }' "$tmp"/out?)
		[ "$n" -eq $((processes * 2 * flows * 20)) ] ||
			fail "$n tuples arrived of $((processes * 2 * flows * 20))"
		sets=$((sets + 1))
		echo "$sets" > "$tmp/sets"
	done
}

(trap - EXIT && run_sets) > "$tmp/result" 2>&1 &
pid[sets]=$!

# One member at a time, so that two others agree; the next one when it is back.
for ((killed = 0; killed < kills; killed++)); do
	sleep "0.$((RANDOM % 10))"
	i=$((RANDOM % 3))
	kill -KILL "${pid[m$i]}"
	wait "${pid[m$i]}" 2> /dev/null || :
	sleep "0.$((RANDOM % 10))"
	start $i
	await $i
	kill -0 "${pid[sets]}" 2> /dev/null || break
done
touch "$tmp/enough"
if ! wait "${pid[sets]}"; then
	unset "pid[sets]"
	cat "$tmp/result"
	exit 1
fi
unset "pid[sets]"
echo "$(cat "$tmp/sets") times $flows flows of $processes processes," \
	"$killed members killed, seed $seed: nothing was lost"
