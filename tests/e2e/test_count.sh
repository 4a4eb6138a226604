#!/bin/sh
# AS has a client that CSP's operator never approved. Sealed updates: CSP refuses its voucher, so it uploads nothing
# until the operator approves it. Paillier: CSP does not reveal a round with it. Then CSP's list is damaged: the last
# good one stays in force, and rounds continue.
# shellcheck disable=SC2119,SC2120 # functions of federation.lib.sh
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"

agreed() { # the operator approves client-03 after all; then the list is damaged
    had=$(reads)
    "$SEFL" ca restore "$fed/ca/csp" --name client-03 > /dev/null
    fed_until 10 "new list at CSP" read_again
    printf 'junk\n' >> "$fed/ca/csp/trust"
    fed_done aggregator 60
    fed_done csp 20
    for c in 1 2 3; do fed_done client-0$c 20; done
    said=$("$SEFL" verify "$fed" 2>&1) || fail "$said"
    said=$("$SEFL_TOOLS/audit" "$fed" 2>&1) || fail "$said"
    case $said in *"rounds 2 released 2 skipped 0 receipts 6"*) ;; *) fail "audit: $said" ;; esac
}
reads() { grep -c "trust list read" "$dir/log/csp"; }
read_again() { [ "$(reads)" -gt "$had" ]; }
rounds="--clients 3 --words 300 --set rounds.count=2 --set rounds.enough=3 --set rounds.threshold=2
    --set rounds.deadline_ms=60000"

note "sealed updates"
# shellcheck disable=SC2086 # options are split on purpose
fed_provision sealed $rounds
"$SEFL" ca revoke "$fed/ca/csp" --name client-03 > /dev/null
sleep 1.1 # the list has timestamps in seconds: this entry must be older than the round
fed_servers --linger 3
fed_clients 1 2 3
not_taken() { grep -q "voucher refused" "$dir/log/csp" && grep -q "answers 403" "$dir/log/client-03"; }
fed_until 40 "refusal" not_taken
! grep -q '"round done"' "$dir/log/client-03" || fail "client-03 uploaded"
[ -z "$(ls "$fed/aggregator/models" 2> /dev/null)" ] || fail "a round was revealed"
agreed

note "paillier"
fed_names=
# shellcheck disable=SC2086
fed_provision f $rounds --scheme paillier --bits 2048
"$SEFL" ca revoke "$fed/ca/csp" --name client-03 > /dev/null
sleep 1.1 # the list has timestamps in seconds: this entry must be older than the round
fed_servers --linger 3
fed_clients 1 2 3
refused() { grep -q "AS states 3 clients, the operator approved 2" "$dir/log/$1"; }
fed_until 40 "refusal" refused csp
fed_until 10 "reason at AS" refused aggregator
[ -z "$(ls "$fed/aggregator/models" 2> /dev/null)" ] || fail "a round was revealed"
agreed
note "all done"
