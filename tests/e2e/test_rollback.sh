#!/bin/sh
# An old copy of a server's state folder is restored while its ledger stays (kill -9, copy, continue, restore the
# copy). AS must refuse to start and report why. CSP must not reveal a round twice: it reports why and skips it, or AS
# stops because CSP knows less than before. (unit/roles/test_agg_rounds.c and test_journals.c try every pair of
# moments without processes.) In the last part, CSP's whole folder is a copy from between charge and reveal.
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
[ "$opened" -lt $round ] || fail "round $round was revealed too soon for this test"
cp -a "$fed/csp/state" "$dir/csp-old"
fed_csp
fed_until 60 "reveal of round $round" has csp "round revealed" $round
stop csp
rm -rf "$fed/csp/state"
mv "$dir/csp-old" "$fed/csp/state"
fed_csp
settled() { fed_ended aggregator || has csp "header signed" $((round + 2)); }
fed_until 60 "next round" settled
named csp || fail "CSP does not say that its state is old"
if fed_ended aggregator; then named aggregator || fail "the aggregator ended without naming CSP's old state"; fi
twice=$(grep '"event":"round revealed"' "$dir/log/csp" | sed 's/.*"round":\([0-9]*\).*/\1/' | sort | uniq -d)
[ -z "$twice" ] || fail "round $twice was revealed twice"

# CSP's machine is set back to a moment between charge and reveal, and AS was killed after the output had left, before
# it stored the integers. AS has acknowledged the output's digest: CSP must skip the round, not reveal it again.
[ -z "${SEFL_SANITIZE:-}" ] || exit 0 # a preloaded library comes before the sanitizer's
fed_kill KILL aggregator csp client-01 client-02 client-03
for name in aggregator csp client-01 client-02 client-03; do fed_wait $name 10; done
rm -rf "$dir/log"

program=$SEFL
die_at() { # ROLE PART: the next process of this role dies at its first write to a file with PART in its path
    cat > "$dir/sefl" << EOF
#!/bin/sh
[ "\$1" = $1 ] || exec "$program" "\$@"
exec env LD_PRELOAD="$SEFL_TOOLS/trial.so" TRIAL_UNDER="$fed/$1" TRIAL_ONLY="$2" TRIAL_FAIL=1 TRIAL_KILL=1 \
    "$program" "\$@"
EOF
    chmod +x "$dir/sefl"
    SEFL=$dir/sefl
}

fed_provision g --clients 3 --words 300 --set model.embed=16 --set model.hidden=16 --set rounds.count=2 \
    --set rounds.enough=3 --set rounds.deadline_ms=60000
die_at csp output
fed_csp
SEFL=$program
die_at aggregator release
fed_aggregator --linger 60
SEFL=$program
fed_clients 1 2 3
fed_wait csp 60 # charged, before it stores the output
[ "$rc" -eq 137 ] || fail "CSP exits $rc"
cp -a "$fed/csp" "$dir/csp-between"
fed_csp
fed_wait aggregator 60 # the output has left, and its integers are not stored
[ "$rc" -eq 137 ] || fail "the aggregator exits $rc"
has csp "round revealed" 1 || fail "CSP has not revealed round 1"
stop csp
cp "$fed/csp/at" "$dir/csp-between/at"
rm -rf "$fed/csp"
mv "$dir/csp-between" "$fed/csp"
fed_csp
fed_aggregator --linger 60
fed_until 60 "skip of round 1" has aggregator "round lost" 1
fed_until 60 "round 2" has csp "round revealed" 2
named csp || fail "CSP does not say that its state is old"
[ "$(grep -c '"event":"round revealed".*"round":1[,}]' "$dir/log/csp")" -eq 1 ] || fail "round 1 was revealed twice"
cmp -s "$fed/aggregator/ledger" "$fed/csp/ledger" || fail "the ledgers differ"
