#!/bin/sh
# BPE tokens in a federation of real processes, from raw text to generated text: perplexity per token and per word.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"

# raw text of three sites, and a vocabulary from public text
mkdir "$dir/raw"
for i in $(seq 400); do
    echo "Herr M$(printf '\303\274')ller, No. $i, said: \"It isn't $((i * 37 % 11)) %, is it?\""
done > "$dir/raw/train.txt"
head -n 60 "$dir/raw/train.txt" > "$dir/raw/valid.txt"
expect 0 "$SEFL" data vocab "$dir/raw/valid.txt" --kind bpe --size 280 --order frequency --out "$dir/bpe.txt"
fed_names=
expect 1 "$SEFL" provision "$dir/refused" --clients 3 --data "$dir/raw" --vocab "$dir/bpe.txt"
says "vocab.kind to bpe"
fed_provision bpe --clients 3 --data "$dir/raw" --vocab "$dir/bpe.txt" --set vocab.kind=bpe --set rounds.count=2
grep -q '"kind": "bpe"' "$fed/public/task.json" || fail "the task does not name the kind"
head -n 1 "$fed/public/vocab.txt" | grep -qx "sefl-bpe 1 280" || fail "$(head -n 1 "$fed/public/vocab.txt")"
fed_servers --linger 2
fed_clients 1 2 3
fed_done aggregator 60
fed_done csp 20
for n in $fed_names; do fed_done "$n" 30; done
grep -q '"word_perplexity":' "$dir/log/aggregator" || fail "$(cat "$dir/log/aggregator")"
grep -q '"word_perplexity":' "$fed/aggregator/state/metrics.jsonl" || fail "$(cat "$fed/aggregator/state/metrics.jsonl")"
expect 0 "$SEFL" report "$fed/aggregator"; says "per word"
model=$fed/aggregator/models/round-2.safetensors
expect 0 "$SEFL" model eval "$model" --vocab "$fed/public/vocab.txt" --data "$fed/public/valid.txt"; says "per word"
expect 0 "$SEFL" model generate "$model" --vocab "$fed/public/vocab.txt" --prompt "Herr M$(printf '\303\274')ller,"
says "Herr M$(printf '\303\274')ller,"

# one vocabulary is not taken for another
cut -f 1 "$fed/public/vocab.txt" | tail -n 280 | head -n 279 > "$dir/list.txt"
expect 2 "$SEFL" model eval "$model" --vocab "$dir/list.txt" --data "$fed/public/valid.txt"; says "kind"

# sefl train on the same raw text, with words and with tokens
for kind in words bpe; do
    expect 0 "$SEFL" train --data "$dir/raw" --out "$dir/$kind" --set vocab.kind=$kind --set data.vocab_words=280 \
        --set model.embed=8 --set model.hidden=8 --set model.layers=1 --block 4 --epochs 1 --threads 1
done
says "per word"
echo ok
