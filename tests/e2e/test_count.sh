#!/bin/sh
# AS has a client that CSP's operator never agreed to: a round with it is not opened, until the operator has. Then
# CSP's list is damaged: the last good one is in force, and rounds go on.
# shellcheck disable=SC2119,SC2120 # functions of federation.lib.sh
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"

fed_provision f --clients 3 --words 300 --set rounds.count=2 --set rounds.enough=3 \
    --set rounds.threshold=2 --set rounds.deadline_ms=60000
"$SEFL" ca revoke "$fed/ca/csp" --name client-03 > /dev/null
sleep 1.1 # the list counts seconds: it was before the round
fed_servers --linger 3
fed_clients 1 2 3
refused() { grep -q "3 clients are stated, 2 were approved" "$dir/log/$1"; }
fed_until 40 "refusal" refused csp
fed_until 10 "reason at AS" refused aggregator
[ -z "$(ls "$fed/aggregator/models" 2> /dev/null)" ] || fail "a round was opened"
reads() { grep -c "trust list read" "$dir/log/csp"; }
had=$(reads)
"$SEFL" ca restore "$fed/ca/csp" --name client-03 > /dev/null
read_again() { [ "$(reads)" -gt "$had" ]; }
fed_until 10 "new list at CSP" read_again
printf 'junk\n' >> "$fed/ca/csp/trust"
fed_done aggregator 60
fed_done csp 20
for c in 1 2 3; do fed_done client-0$c 20; done
said=$("$SEFL_TOOLS/audit" "$fed" 2>&1) || fail "$said"
case $said in *"rounds 2 released 2 skipped 0"*) ;; *) fail "audit: $said" ;; esac
note "all done"
