#!/bin/sh
# kill -9 of the aggregation server, the CSP and clients at seeded moments (SEFL_TEST_SEED), including during
# two-party computation. After restarts the run completes; then the audit (tests/tools) checks that every acknowledged
# update is in its sum once, no charge is lost, and each round has one reveal. During the run no released model ever
# changes, and no round is revealed twice.
#
# A few kills of each in CI, 50 of each with SEFL_SOAK.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
kills=3 # of each role
[ -z "${SEFL_SOAK:-}" ] || kills=50
clients=3
note "seed ${SEFL_TEST_SEED:-1}, $kills kills of each role"

# A model file never changes.
look_at_models() {
    for m in "$fed"/aggregator/models/round-*.safetensors; do
        [ -e "$m" ] || continue
        sum=$(sha256sum < "$m")
        known=$dir/known-$(basename "$fed")-$(basename "$m")
        [ -e "$known" ] || echo "$sum" > "$known"
        [ "$sum" = "$(cat "$known")" ] || fail "$(basename "$m") has changed"
    done
}

closed() { grep -c '"event":"round closed"' "$dir/log/aggregator" || :; }
is_over() { grep -q '"event":"task over"' "$dir/log/aggregator" || fed_ended aggregator; }
one_more_closed() { [ "$(closed)" -gt "$before" ] || is_over; }

# Every second kill comes just after a round has closed (masking, two-party computation, release), the others at any
# time.
moment() { # NUMBER
    if [ $(($1 % 2)) -eq 0 ]; then
        before=$(closed)
        fed_until 60 "closing of a round" one_more_closed
        sleep "$(fed_random 0.4 "close $1")"
    else
        sleep "$(fed_random 1.5 "time $1")"
    fi
}

restart() { # NAME
    case $1 in
    aggregator) fed_aggregator --linger 60 ;;
    csp) fed_csp ;;
    *) fed_clients "${1#client-0}" ;;
    esac
}

check() {
    # clients return when their back-off is over; the aggregator waits for them until it is stopped
    for name in client-01 client-02 client-03 csp; do fed_done $name 60; done
    fed_kill TERM aggregator
    fed_done aggregator 20
    look_at_models
    last=$(find "$fed/aggregator/models" -name 'round-*.safetensors' | sort -V | tail -n 1)
    for c in "$fed/clients"/*; do
        cmp -s "$last" "$c/state/models"/*/"${last##*/}" || fail "$c does not have the final model"
    done
    said=$("$SEFL" verify "$fed" 2>&1) || fail "$said"
    said=$("$SEFL_TOOLS/audit" "$fed" 2>&1) || fail "$said"
    # the mark is durable before the log line is written, so a round may have no line, but never two
    twice=$(grep '"event":"round revealed"' "$dir/log/csp" | sed 's/.*"round":\([0-9]*\).*/\1/' | sort | uniq -d)
    [ -z "$twice" ] || fail "round $twice was revealed twice"
    note "run $run: $said"
}

n=0
run=0
total=$((3 * kills))
while [ "$n" -lt $total ]; do
    run=$((run + 1))
    fed_names=
    rm -rf "$dir/log" "$dir/run"
    fed_provision "run-$run" --clients $clients --words 300 --set model.embed=32 \
        --set model.hidden=32 --set rounds.count=40 --set rounds.deadline_ms=60000
    fed_servers --linger 60
    fed_clients 1 2 3
    while [ "$n" -lt $total ] && ! is_over; do
        case $((n % 3)) in
        0) who=aggregator ;;
        1) who=csp ;;
        *) who=client-0$((n / 3 % clients + 1)) ;;
        esac
        moment "$n"
        if fed_ended $who; then break; fi # the run ended first
        fed_kill KILL $who
        fed_wait $who 10
        look_at_models
        sleep "$(fed_random 0.3 "pause $n")"
        n=$((n + 1))
        restart $who
    done
    check
    rm -rf "$fed"
done
note "$n kills in $run runs"
