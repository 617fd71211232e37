#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_ofi_etcd.sh BIN_DIR TEST_DIR [ROUNDS]: the replicated store over TCP between two hosts
# without RDMA, with an etcd of three members as its registry, by TLS and a user. Under load,
# in each round (default 1) the store's leader and a member of etcd are killed. The others
# serve; both come back, the replica without what it knew. In the end all replicas are
# members, and what clients saw is linearizable.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
# shellcheck source=tests/proc/hosts_help.sh
. "$(dirname "$0")/hosts_help.sh"
# shellcheck source=tests/proc/hosts_etcd_help.sh
. "$(dirname "$0")/hosts_etcd_help.sh"
bin=$(realpath "$1") tests=$(realpath "$2") rounds=${3:-1}
etcd_check
hosts_make
cd "$tmp"

fail() # TEXT...
{
	echo "FAILED: $*"
	tail -n 20 ./*.err store.load 2> /dev/null || true
	exit 1
}

# ---- The store ---------------------------------------------------------------

replica_start() # REPLICA OPTION...
{
	at "${host_of[$1]}" "${settings[@]}" -- "$bin/dfi-kv" --cluster store --id "$1" \
		--replicas 3 --heartbeat 50 --election 500 "${@:2}" 2>> "replica$1.err" &
	replicas[$1]=$!
}

store_start()
{
	local i

	for i in 0 1 2; do
		replica_start $i --bootstrap
	done
	at b "${settings[@]}" -- "$tests/consensus/record" store 3 history store \
		> store.load 2> load.err &
	recorder=$!
	within 60000 grep -q '^serves' store.load
	marks=0
}

# A command that is sent from now on has an answer.
store_serves()
{
	marks=$((marks + 1))
	touch "store.mark.$marks"
	within 60000 grep -q "^mark $marks: served" store.load
}

leader()
{
	sed -n 's/^replica \([0-9]\) leads$/\1/p' store.load | tail -n 1
}

# Whether all replicas follow one, and all know all as members as they are now: one that
# comes back is a new member.
are_whole()
{
	[ -s store.counters ] && awk '
		$1 == "incarnation" { now[$2] }
		$1 == "member" { members[$2]++ }
		$1 == "leader_plus_1" && $2 > 0 { n[$2]++ }
		END {
			for (i in n) all += n[i] == 3
			for (i in now) known += members[i] == 3
			exit !(all && known == 3)
		}' store.counters
}

is_led()
{
	[ -n "$(leader)" ]
}

round() # ROUND
{
	local replica member=$((($1 + 1) % 3)) began

	within 60000 is_led
	replica=$(leader)
	began=$(now_ms)
	kill -KILL "${replicas[replica]}" "${members[member]}"
	wait "${replicas[replica]}" "${members[member]}" 2> /dev/null || :
	store_serves
	echo "round $1: replica $replica, which led, and member $member were killed;" \
		"served again after $(($(now_ms) - began)) ms"
	# It needs the registry, of which two members are left.
	replica_start "$replica"
	rm -f store.counters # of before
	within 60000 are_whole
	member_start $member
	within 60000 answers $member
}

etcd_start
settings+=(DFI_OFI_TIMEOUT=2000)
store_start
within 60000 are_whole
for ((i = 1; i <= rounds; i++)); do
	round $i
done
grep -q 'ofi: provider tcp at 10.77.9.1' replica0.err || fail "replicas do not use TCP"
store_serves
touch store.stop store.end
wait $recorder || fail "the clients: exit status $?"
"$tests/linearizability/check-history" history > verdict.err ||
	fail "that is no linearizable history"
echo "$(tail -n 1 store.load):$(cut -d: -f2 verdict.err)"
