#!/bin/sh
# Clients take turns (rounds.separation): six real clients of two groups, three rounds. No client uploads in two
# consecutive rounds, every client that has no turn says so and waits, and AS refuses a hostile client that took part in
# the round before. (CSP's refusal: tests/unit/core/sum/test_link_sealed.c.) The noise is correlated: each client's ledger
# charges its updates up to the task's last round, also those of a client that took part once.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"

# a group may have fewer clients than the threshold: its rounds are skipped after the deadline
fed_provision f --clients 6 --words 200 --set rounds.count=3 --set rounds.separation=2 --set rounds.threshold=2 \
    --set rounds.deadline_ms=5000 --set rounds.extensions=0 --set crypto.scheme=paillier \
    --set privacy.claim=dp --set privacy.epsilon=100 --set privacy.delta=1e-6 --set privacy.z=2 --set privacy.filter=2048
bytes=$(sed -n 's/.*an update has \([0-9]*\) bytes.*/\1/p' "$dir/provision.out")
fed_servers --linger 2
fed_clients 1 2 3 4 5 6
counters=$fed/aggregator/state/counters.json
took() { grep -l "\"round done\".*\"round\":$1[,}]" "$dir"/log/client-* 2> /dev/null; }
limited() { grep -q '"upload.limit":[1-9]' "$counters" 2> /dev/null; }
tries=0
skipped() { grep -q "\"round\":$1,\"skipped\":true" "$fed/aggregator/state/metrics.jsonl"; } # nobody took part
for round in 1 2; do # the first round with enough clients
    fed_until 60 "round $((round + 1))" grep -q "\"round open\".*\"round\":$((round + 1))[,}]" "$dir/log/client-01"
    skipped $round && continue
    one=$(took $round | head -n 1)
    [ -n "$one" ] || continue
    n=$(basename "$one" | sed 's/client-0*//')
    fed_start hostile "$SEFL_TOOLS/hostile" --server "$(cat "$fed/aggregator/at")" --clients "$fed/clients" \
        --body-bytes "$bytes" --first "$n" --last "$n" --only spoil --count 1 --seconds 3000
    fed_until 6 "refused upload of $one after round $round" limited
    fed_kill TERM hostile
    fed_done hostile 20
    tries=1
    break
done
[ $tries = 1 ] || fail "nobody took part in the first two rounds"
for c in 1 2 3 4 5 6; do fed_done client-0$c 90; done
all=0
for c in 1 2 3 4 5 6; do
    log=$dir/log/client-0$c
    rounds=$(sed -n 's/.*"round done".*"round":\([0-9]*\).*/\1/p' "$log" | tr '\n' ' ')
    case $rounds in "1 3 " | "1 " | "2 " | "3 " | "") ;; *) fail "client $c took part in $rounds" ;; esac
    grep -q "not this client's turn" "$log" || fail "client $c had a turn in every round"
    all=$((all + $(echo "$rounds" | wc -w)))
    # an update shows by 1, 1/2, 1/4 in its round and the two after it: the norm of what is left until round 3
    for r in $rounds; do skipped "$r" && continue 2; done
    case $rounds in "1 ") s=1.1456 ;; "2 ") s=1.1180 ;; "3 ") s=1 ;; "1 3 ") s=1.6771 ;; *) continue ;; esac
    said=$("$SEFL" privacy spent "$fed/clients/client-0$c/ledger" --json) || fail "$said"
    echo "$said" | grep -q '"horizon":3,' || fail "client $c is not charged up to round 3: $said"
    is=$(echo "$said" | sed 's/.*"s":\([0-9.]*\).*/\1/')
    awk -v is="$is" -v s="$s" 'BEGIN { exit !(is >= s - 1e-4 && is < s + 1e-3) }' ||
        fail "client $c took part in $rounds: charged with S = $is, not $s"
    charged=$((${charged:-0} + 1))
done
[ "${charged:-0}" -ge 2 ] || fail "only ${charged:-0} clients were charged"
[ $all -ge 4 ] || fail "only $all updates: $(cat "$dir"/log/client-*)"
fed_done aggregator 30
fed_done csp 20
said=$("$SEFL" verify "$fed" 2>&1) || fail "$said"
echo ok
