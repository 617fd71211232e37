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
bin=$(realpath "$1") tests=$(realpath "$2") rounds=${3:-1}
for program in etcd etcdctl openssl; do
	command -v $program > /dev/null || skip "$program is not installed"
done
hosts_make
cd "$tmp"

fail() # TEXT...
{
	echo "FAILED: $*"
	tail -n 20 ./*.err store.load 2> /dev/null || true
	exit 1
}

now_ms()
{
	date +%s%3N
}

within() # MS COMMAND...
{
	local deadline=$(($(now_ms) + $1))

	until "${@:2}"; do
		[ "$(now_ms)" -lt $deadline ] || fail "not after $1 ms: ${*:2}"
		sleep 0.05
	done
}

# ---- etcd --------------------------------------------------------------------

make_certificates()
{
	local key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)

	openssl req -x509 "${key[@]}" -keyout ca.key -out ca.pem -days 2 -subj /CN=ca
	openssl req "${key[@]}" -keyout member.key -out member.csr -subj /CN=member
	openssl x509 -req -in member.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
		-extfile <(echo subjectAltName=IP:10.77.9.1,IP:10.77.9.2) -out member.pem
}

at_member=(10.77.9.1:2379 10.77.9.2:2379 10.77.9.2:2389)
at_peer=(10.77.9.1:2380 10.77.9.2:2380 10.77.9.2:2390)
host_of=(a b b)
member_start() # MEMBER
{
	at "${host_of[$1]}" -- etcd --name "m$1" --data-dir "m$1" --bcrypt-cost 4 \
		--listen-client-urls "https://${at_member[$1]}" \
		--advertise-client-urls "https://${at_member[$1]}" \
		--cert-file member.pem --key-file member.key \
		--listen-peer-urls "http://${at_peer[$1]}" \
		--initial-advertise-peer-urls "http://${at_peer[$1]}" \
		--initial-cluster "m0=http://${at_peer[0]},m1=http://${at_peer[1]},m2=http://${at_peer[2]}" \
		>> "m$1.log" 2>&1 &
	members[$1]=$!
}

control() # ARGUMENT...
{
	(at a ETCDCTL_API=3 -- etcdctl --endpoints "${at_member[0]}" --cacert ca.pem "$@") \
		> control.out 2>&1
}

answers() # MEMBER
{
	(at a ETCDCTL_API=3 -- etcdctl --endpoints "${at_member[$1]}" --cacert ca.pem \
		--user dfi:secret --command-timeout 2s get dfi/none) > control.out 2>&1
}

etcd_start()
{
	local i

	make_certificates > openssl.err 2>&1 || fail "no certificates"
	for i in 0 1 2; do
		member_start $i
	done
	within 60000 control get none
	control user add root:root
	control user grant-role root root
	control role add dfi
	control role grant-permission dfi --prefix=true readwrite dfi/
	control user add dfi:secret
	control user grant-role dfi dfi
	control auth enable || fail "etcd: $(cat control.out)"
	(umask 077 && echo secret > password)
	registry=etcd:https://${at_member[0]},${at_member[1]},${at_member[2]}
	settings=(DFI_REGISTRY="$registry" DFI_REGISTRY_CA="$tmp/ca.pem" DFI_ETCD_USER=dfi
		DFI_ETCD_PASSWORD_FILE="$tmp/password" DFI_OFI_TIMEOUT=2000)
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
