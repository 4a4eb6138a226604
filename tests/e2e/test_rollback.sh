#!/bin/sh
# An old copy of a server's state folder is restored while its ledger stays (kill -9, copy, continue, restore the
# copy). AS must refuse to start and report why. CSP must not reveal a round twice: it reports why and skips it, or AS
# stops because CSP knows less than before. (unit/roles/test_agg_rounds.c and test_journals.c try every pair of
# moments without processes.)
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"

has() { grep -q "\"event\":\"$2\".*\"round\":$3[,}]" "$dir/log/$1"; } # ROLE EVENT ROUND
named() { grep -qE "old copy (of .* )?was put back" "$dir/log/$1"; }      # ROLE
stop() { # ROLE
    fed_kill KILL "$1"
    fed_wait "$1" 10
}

fed_provision f --clients 3 --words 300 --set model.embed=16 --set model.hidden=16 \
    --set rounds.count=6 --set rounds.enough=0 --set rounds.deadline_ms=1500
fed_servers --linger 60
fed_clients 1 2 3

# AS: a copy of round 1, when round 2 is open
fed_until 30 "round 1" has aggregator "round open" 1
stop aggregator
cp -a "$fed/aggregator/state" "$dir/as-old"
fed_aggregator --linger 60
fed_until 60 "round 2" has aggregator "round open" 2
stop aggregator
mv "$fed/aggregator/state" "$dir/as-new"
cp -a "$dir/as-old" "$fed/aggregator/state"
fed_aggregator --linger 60
fed_wait aggregator 20
[ "$rc" -eq 1 ] || fail "the aggregator with an old state exits $rc"
named aggregator || fail "the aggregator does not say that its state is old"
rm -rf "$fed/aggregator/state"
mv "$dir/as-new" "$fed/aggregator/state"
: > "$dir/log/aggregator"
fed_aggregator --linger 60 # continues

# CSP: a copy from between header and reveal, while the round is open
round=3
fed_until 60 "header $round" has csp "header signed" $round
stop csp
opened=$(grep -c '"event":"round revealed"' "$dir/log/csp")
[ "$opened" -lt $round ] || fail "round $round was opened too soon for this test"
cp -a "$fed/csp/state" "$dir/csp-old"
fed_csp
fed_until 60 "opening of round $round" has csp "round revealed" $round
stop csp
rm -rf "$fed/csp/state"
mv "$dir/csp-old" "$fed/csp/state"
fed_csp
settled() { fed_ended aggregator || has csp "header signed" $((round + 2)); }
fed_until 60 "next round" settled
named csp || fail "CSP does not say that its state is old"
if fed_ended aggregator; then named aggregator || fail "the aggregator ended without naming CSP's old state"; fi
twice=$(grep '"event":"round revealed"' "$dir/log/csp" | sed 's/.*"round":\([0-9]*\).*/\1/' | sort | uniq -d)
[ -z "$twice" ] || fail "round $twice was opened twice"
