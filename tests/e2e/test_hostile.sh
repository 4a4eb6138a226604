#!/bin/sh
# Hostile clients beside 8 honest ones: slow, broken, garbage-sending, replaying, with wrong certificates, rounds,
# sizes and versions (tests/tools/hostile.c). The honest clients finish, AS stays small, and AS counts every refusal
# under its reason. 30 hostile clients here, 300 under SEFL_SOAK; SEFL_TEST_SEED repeats a run.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
limit_kb=307200 count=30 least=8 rounds=3 last=20 connections=400
[ -z "$SEFL_SANITIZE" ] || limit_kb=1500000 # shadow memory is not AS's
if [ -n "${SEFL_SOAK:-}" ]; then count=300 least=120 rounds=12 last=60 connections=200; fi
seed=${SEFL_TEST_SEED:-1}

fed_provision f --clients $last --words 400 --set rounds.count=$rounds --set rounds.enough=8 \
    --set rounds.threshold=4 --set rounds.deadline_ms=300000 --set crypto.scheme=paillier
fed_csp
fed_aggregator --linger 600 --idle 4 --per-address 40 --connections $connections
mkdir "$dir/scratch"
bytes=$(sed -n 's/.*an update has \([0-9]*\) bytes.*/\1/p' "$dir/provision.out")
counters=$fed/aggregator/state/counters.json
counted() { grep -q "\"$1\":[1-9]" "$counters" 2> /dev/null; }
hostile() { # NAME ARGUMENTS...
    fed_h=$1
    shift
    fed_start "$fed_h" "$SEFL_TOOLS/hostile" --server "$(cat "$fed/aggregator/at")" --seed "$seed" \
        --clients "$fed/clients" --state "$fed/aggregator/state" --body-bytes "$bytes" \
        --seconds 3000 "$@"
}
hostile hostile --first 9 --last $last --ca "$fed/ca/aggregator/ca.pem" \
    --ca-key "$fed/ca/aggregator/ca.key" --scratch "$dir/scratch" --count $count
began=$(date +%s)
sleep 1 # the hostile clients start first
fed_clients 1 2 3 4 5 6 7
# round 1 waits for the eighth client until the hostile ones have sent another client's ciphertext, their own
# acknowledged updates, and those of others
fed_until 60 "replay" counted upload.copied
hostile again --first 1 --last 7 --only replay --count 4
fed_until 30 "own body again" counted upload.again
fed_until 30 "another body" counted upload.other_body
fed_kill TERM again
fed_done again 10
# each refused certificate is in the audit logs, and a flood of them is not: a client knocks at CSP's port
knock() { # a client's number; or none, without a certificate
    openssl s_client -connect "$(cat "$fed/csp/at")" -alpn sefl-link ${1:+-cert "$fed/clients/client-$1/cert.pem"} \
        ${1:+-key "$fed/clients/client-$1/key.pem"} < /dev/null > "$dir/knock" 2>&1 || :
}
for i in 01 01 01 02 ""; do knock $i; done
logged() { [ "$(grep '"kind":"refused"' "$fed/$1/state/audit.jsonl" | grep -c "$2")" -ge "${3:-1}" ]; }
fed_until 30 "CSP's entry" logged csp '"by":"csp","key":"".*certificate.no_certificate'
fed_until 30 "CSP's entries" logged csp '"by":"csp","key":"[0-9a-f]\{64\}","name":"client-0[12]","reason":"certificate\.' 2
[ "$(grep -c '"name":"client-01"' "$fed/csp/state/audit.jsonl")" = 1 ] || fail "a refusal is repeated"
fed_clients 8
for c in 1 2 3 4 5 6 7 8; do fed_done client-0$c $((120 + least)); done
note "the good ones have finished"

# every kind was tried, each reason was counted
for reason in handshake_failed handshake_slow header_slow not_http certificate request_rate \
    headers_too_large bad_path bad_form no_length body_too_large body_slow body_cut \
    certificate.no_certificate certificate.unknown_issuer certificate.expired certificate.wrong_role \
    version_refused no_such_path wrong_method bad_numbers \
    upload.taken upload.late upload.early upload.size upload.not_cipher upload.replaced upload.cut; do
    fed_until 30 "refusal counted as $reason" counted $reason
done
for reason in no_certificate unknown_issuer expired wrong_role; do
    fed_until 30 "entry about $reason" logged aggregator "\"by\":\"aggregator\".*certificate\.$reason"
done
most=$((4 * 12 * (1 + $(grep -c '"kind":"checkpoint"' "$fed/aggregator/state/audit.jsonl"))))
logged aggregator '"key":' $((most + 1)) && fail "more than $most entries about strangers"
while [ $(($(date +%s) - began)) -lt $least ]; do sleep 1; done
memory=$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$(cat "$dir/run/aggregator.pid")/status")
fed_kill TERM hostile
fed_done hostile 20
awk '$2 == "tries" && $3 == 0 { print "never tried: " $1; bad = 1 } END { exit bad }' "$dir/log/hostile" ||
    fail "$(cat "$dir/log/hostile")"
fed_kill TERM aggregator # it would linger for a while
fed_done aggregator 20
fed_done csp 20
said=$("$SEFL" verify "$fed" 2>&1) || fail "$said"
said=$("$SEFL_TOOLS/audit" "$fed" 2>&1) || fail "$said"
case $said in *"rounds $rounds released $rounds skipped 0"*) ;; *) fail "audit: $said" ;; esac
note "AS had at most $memory kB"
[ "$memory" -lt $limit_kb ] || fail "AS had $memory kB"
grep -q 'failed_here":0' "$counters" || fail "something failed in AS: $(cat "$counters")"
note "all done: $(cat "$counters")"
