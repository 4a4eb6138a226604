#!/bin/sh
# Whole federations as real processes over mutual TLS, with full-size keys: learning, ledgers, lost clients.
# (property.roles.federation checks that the sums are exact, bit for bit; test_kill.sh covers crashes.)
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"

perplexity() { # ROUND: of its model on the public validation text, times 100
    fed_m=$fed/aggregator/models/round-$1.safetensors
    [ "$1" -gt 0 ] || fed_m=$fed/public/init.safetensors
    "$SEFL" model eval "$fed_m" --vocab "$fed/public/vocab.txt" --data "$fed/public/valid.txt" \
        --threads 1 --json | sed 's/.*"perplexity":\([0-9.e+]*\).*/\1/' |
        awk '{ printf "%d\n", 100 * $1 }'
}
audit() { # WANT: "rounds R released A skipped B receipts C", words that must be in it
    said=$("$SEFL" verify "$fed" 2>&1) || fail "$said"
    said=$("$SEFL_TOOLS/audit" "$fed" 2>&1) || fail "$said"
    case $said in *"$1"*) ;; *) fail "audit: $said; wanted $1" ;; esac
    cmp -s "$fed/aggregator/ledger" "$fed/csp/ledger" || fail "the ledgers differ"
}
everybody_done() { # SECONDS
    fed_done aggregator "$1"
    fed_done csp 20
    for n in $fed_names; do fed_done "$n" 30; done
}

same_model() { # ROUND: each client has AS's model of this round
    for n in "$fed/clients"/*; do
        cmp -s "$fed/aggregator/models/round-$1.safetensors" "$n/state/models"/*/"round-$1.safetensors" ||
            fail "$n does not have the final model"
    done
}

# ---- learning: 8 clients, 5 rounds, LSTM at l = 8, both schemes --------------------------------
for scheme in pad paillier; do
    note "$scheme: 8 clients, 5 rounds"
    fed_names=
    fed_provision "$scheme" --clients 8 --scheme $scheme --words 1500
    values=$(sed -n 's/^model *\([0-9]*\) values.*/\1/p' "$dir/provision.out")
    [ "$values" -lt 20000 ] || fail "the model has $values values"
    grep -q '"block": 8,' "$fed/public/task.json" || fail "block size"
    fed_servers --linger 2
    echo "eval: own" >> "$fed/clients/client-01/client.yml"
    fed_clients 1 2 3 4 5 6 7 8
    everybody_done 120
    same_model 5
    own=$fed/clients/client-01/state
    [ "$(grep -c '"perplexity":[0-9]' "$own/eval.jsonl")" -eq 6 ] || fail "eval: own: $(cat "$own/eval.jsonl")"
    [ "$(stat -c %a "$own/eval.jsonl")" = 600 ] || fail "others can read the owner's evaluation"
    ! grep -q perplexity "$dir/log/client-02" || fail "client-02 evaluates models without eval: own"
    "$SEFL" model generate "$own"/models/*/round-5.safetensors --vocab "$own"/models/*/vocab.txt --words 5 \
        > "$dir/generated" 2>&1 || fail "$(cat "$dir/generated")"
    audit "rounds 5 released 5 skipped 0 receipts 40"
    before=$(perplexity 0)
    first=$(perplexity 1)
    last=$(perplexity 5)
    note "$scheme: perplexity $before -> $first -> $last (hundredths)"
    [ "$first" -lt "$before" ] || fail "perplexity does not fall in round 1"
    [ "$last" -lt "$first" ] || fail "perplexity does not fall after round 1"
    [ $((last * 4)) -lt "$before" ] || fail "perplexity falls too little"
    "$SEFL" privacy spent "$fed/csp/ledger" > "$dir/spent" 2>&1 || fail "privacy spent"
    grep -qi "no differential privacy\|nothing is claimed\|none" "$dir/spent" || fail "$(cat "$dir/spent")"
done

# ---- a claim: z = 1, a clip that is found, both ledgers equal, and each client's own --------------------------------
note "z = 1"
fed_names=
fed_provision claim --clients 4 --words 400 --set privacy.claim=dp --set privacy.z=1 \
    --set privacy.clip=1 --set privacy.epsilon=60 --set privacy.delta=1e-5 --set rounds.count=3 \
    --set privacy.clip_quantile=0.5
fed_servers --linger 2
fed_clients 1 2 3 4
everybody_done 60
audit "rounds 3 released 3 skipped 0 receipts 12"
same_model 3
"$SEFL" privacy spent "$fed/csp/ledger" --json > "$dir/spent" || fail "privacy spent"
"$SEFL" privacy spent "$fed/aggregator/ledger" --json | cmp -s - "$dir/spent" || fail "spent differs"
"$SEFL" privacy spent "$fed/clients/client-01/ledger" --json > "$dir/own" || fail "a client's ledger"
grep -q '"rounds":3' "$dir/spent" || fail "$(cat "$dir/spent")"
clip_of() { head -c 4000 "$fed/aggregator/models/round-$1.safetensors" | grep -ao '"clip":"[0-9]*' | tr -dc 0-9; }
for r in 1 2 3; do # from the clip of 1, each round by a factor of at most e^0.1; sefl verify computed them again
    [ -n "$(clip_of $r)" ] || fail "the model of round $r has no clip"
    awk "BEGIN { f = $(clip_of $r) / 1e9; exit !(f != 1 && f < exp(0.1001 * $r) && f > exp(-0.1001 * $r)) }" ||
        fail "the clip after round $r is $(clip_of $r)"
done

# ---- single records ---------------------------------------------------------------------------
# They start from a model that was trained on public text, and train its body alone.
note "single records, from a public start"
fed_names=
"$SEFL" synth --out "$dir/open" --clients 1 --tokens 4000 --seed 9 > /dev/null || fail "synth"
"$SEFL" train --data "$dir/open" --vocab "$dir/open/vocab.txt" --out "$dir/start" --block 8 --epochs 1 --quiet \
    --set model.embed=16 --set model.hidden=16 --set model.layers=1 --set model.batch=5 --set model.steps=20 \
    > /dev/null || fail "train"
fed_provision records --clients 3 --words 600 --vocab "$dir/open/vocab.txt" --init "$dir/start/model.safetensors" \
    --set model.embed=16 --set model.hidden=16 --set model.block=8 --set 'training.only=rnn.*' \
    --set privacy.claim=dp --set privacy.z=1 --set privacy.clip=1 \
    --set privacy.epsilon=20 --set privacy.delta=1e-5 --set rounds.count=2 --set training.epochs=0 --set training.steps=1 \
    --set privacy.unit=record --set privacy.records_max=40 --set privacy.record_turns=1
"$SEFL" task show --explain "$fed/public/task.json" > "$dir/explained" || fail "task show"
grep -q "Mode own: one honest server is enough" "$dir/provision.out" || fail "the default: $(cat "$dir/provision.out")"
grep -q "for 608 values" "$dir/provision.out" || fail "the update is not the body: $(cat "$dir/provision.out")"
grep -q "Each round uses at most 40 records of a client" "$dir/explained" || fail "$(cat "$dir/explained")"
grep -q "A record is used in at most 1 of the 2 rounds" "$dir/explained" || fail "$(cat "$dir/explained")"
fed_servers --linger 2
fed_clients 1 2 3
everybody_done 60
audit "rounds 2 released 2 skipped 0 receipts 6"
for l in csp aggregator clients/client-01; do
    "$SEFL" privacy spent "$fed/$l/ledger" > "$dir/spent" || fail "privacy spent"
    grep -q "unit record, discrete noise, z 1, rate 1," "$dir/spent" || fail "$(cat "$dir/spent")"
    grep -q "FOR A RECORD" "$dir/spent" || fail "$(cat "$dir/spent")"
    grep -q "each is charged for at most 1 of 2 rounds" "$dir/spent" || fail "$(cat "$dir/spent")"
done
[ "$(find "$fed/clients" -name 'ledger.records-*' | wc -l)" = 3 ] || fail "no lists of records"

# ---- lost clients ------------------------------------------------------------------------------
note "75 % of the clients are killed in the middle of a round, then all of them"
fed_names=
fed_provision lost --clients 8 --words 3000 --set training.epochs=4 --set rounds.count=5 \
    --set rounds.deadline_ms=$((3000 + 3000 * t)) --set rounds.extend_ms=1000 \
    --set rounds.extensions=1 --set rounds.threshold=2
count_released() { find "$fed/aggregator/models" -name 'round-*.safetensors' 2> /dev/null | wc -l; }
count_skipped() { grep -c '"event":"round skipped"' "$dir/log/csp" || :; }
more_released() { [ "$(count_released)" -gt "$before" ]; }
more_skipped() { [ "$(count_skipped)" -gt "$before" ]; }
rm -rf "$dir/log"
fed_servers --linger 2
fed_clients 1 2 3 4 5 6 7 8
before=0
fed_until 60 "first release" more_released
fed_kill KILL client-01 client-02 client-03 client-04 client-05 client-06
before=$(count_released)
fed_until 60 "release by the survivors" more_released
fed_kill KILL client-07 client-08
before=$(count_skipped)
released=$(count_released)
fed_until 60 "skipped round" more_skipped
[ "$(count_released)" -eq "$released" ] || fail "a round was revealed without clients"
fed_clients 1 2 3 4 5 6 7 8
everybody_done 60
said=$("$SEFL" verify "$fed" 2>&1) || fail "$said"
said=$("$SEFL_TOOLS/audit" "$fed" 2>&1) || fail "$said"
[ "$(count_released)" -gt "$released" ] || fail "nothing was released after the loss: $said"
note "$said"
