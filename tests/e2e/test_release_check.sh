#!/bin/sh
# One enrolled client spoils the sum in every round, beside honest ones: with paillier by random bytes that are valid
# ciphertexts, with sealed updates by a vector of the largest values, properly sealed and signed, and by random units
# whose seed is not the sealed one. The release check blocks each such round: the previous model stays and all parties
# continue; three consecutive blocked rounds end the task, and AS's log names the suspects.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"

play() { # SCHEME
    note "$1"
    scheme=$1 fed_names=
    rm -f "$dir"/log/* # of the federation before
    fed_provision "$scheme" --clients 4 --words 300 --set rounds.count=9 --set rounds.enough=4 --scheme "$scheme" \
        --set rounds.threshold=3 --set rounds.deadline_ms=300000 --set server.step=momentum
    fed_servers --linger 3
    metrics=$fed/aggregator/state/metrics.jsonl
    blocked() { [ "$(grep -c '"blocked":true' "$metrics" 2> /dev/null)" -ge "$1" ]; }
    released() { grep -q "\"round\":$1,\"skipped\":false,\"clients\"" "$metrics" 2> /dev/null; }
    spoil() { # NAME [seed]
        if [ "$scheme" = pad ]; then
            largest=$("$SEFL" task show "$fed/public/task.signed" | sed -n 's/.*|value| <= \([0-9]*\),.*/\1/p')
            fed_start "$1" "$SEFL_TOOLS/spoil" "$fed/clients/client-04/client.yml" "$(cat "$fed/aggregator/at")" "${2-$largest}"
            return
        fi
        bytes=$(sed -n 's/.*an update has \([0-9]*\) bytes.*/\1/p' "$dir/provision.out")
        bits=$("$SEFL" key show "$fed/public/key.pub" --json | sed -n 's/.*"bits":\([0-9]*\).*/\1/p')
        fed_start "$1" "$SEFL_TOOLS/hostile" --server "$(cat "$fed/aggregator/at")" \
            --clients "$fed/clients" --body-bytes "$bytes" --cipher-bytes $((bits / 4)) --first 4 \
            --last 4 --only spoil --count 1 --seconds 3000
    }

    # round 1 is honest, then client 4 turns hostile
    fed_clients 1 2 3 4
    fed_until 60 "released round 1" released 1
    fed_kill TERM client-04
    fed_wait client-04 20
    spoil hostile
    fed_until 60 "blocked round" blocked 1
    # after kill -9 the blocked rounds still count
    fed_kill KILL aggregator
    fed_wait aggregator 20
    if [ "$scheme" = pad ]; then # from here on the sealed seed does not match its units
        fed_kill TERM hostile
        fed_wait hostile 20
        spoil other seed
    fi
    fed_aggregator --linger 3
    for c in 1 2 3; do fed_done client-0$c 120; done
    fed_done aggregator 60
    fed_done csp 20
    if [ "$scheme" = pad ]; then # it ends with the task
        fed_done other 20
        grep -q '"update counted"' "$dir/log/other" || fail "no round had a seed of other units"
    else
        fed_kill TERM hostile
        fed_done hostile 20
    fi

    log=$dir/log/aggregator
    last=$(grep -v blocked "$metrics" | sed -n '$s/{"round":\([0-9]*\),.*/\1/p')
    [ -s "$fed/aggregator/models/round-$last.safetensors" ] || fail "the model of round $last is gone"
    [ ! -e "$fed/aggregator/models/round-$((last + 1)).safetensors" ] || fail "a blocked round has a model"
    [ "$(grep -c '"blocked":true' "$metrics")" -eq 3 ] || fail "not three blocked rounds: $(cat "$metrics")"
    for n in 1 2 3; do
        grep -q "\"event\":\"release blocked.*\"round\":$((last + n)),.*\"norm\":.*\"bound\":" "$log" ||
            fail "no error names round $((last + n))"
    done
    [ -s "$fed/aggregator/models/round-$last.optimiser" ] || fail "the optimiser's memory is gone"
    grep -q '"task over".*the release check blocked three rounds in a row' "$log" || fail "no reason"
    for c in 1 2 3; do
        grep -q "the release check blocked three rounds in a row" "$dir/log/client-0$c" || fail "client $c was not told"
    done
    key=$(sed -n 's/.*"client in all blocked rounds","key":"\([0-9a-f]\{64\}\)","name":"client-04".*/\1/p' "$log")
    [ -n "$key" ] || fail "client 4 is not named"
    said=$("$SEFL" verify "$fed" 2>&1) || fail "$said"
    said=$("$SEFL_TOOLS/audit" "$fed" 2>&1) || fail "$said"
    case $said in *"released $last skipped 0 "*"blocked 3") ;; *) fail "audit: $said" ;; esac
    said=$("$SEFL" report "$fed" --text)
    case $said in *"$last released, 0 skipped, 3 blocked by the release check"*) ;; *) fail "report: $said" ;; esac
    "$SEFL" ca revoke "$fed/ca/aggregator" --key "$key" > "$dir/revoked" 2>&1 || fail "$(cat "$dir/revoked")"
}
play pad
play paillier
note "all done"
