#!/bin/sh
# sefl paper: all figures at small scale, on generated text and on text of a folder; resuming, sharing, misuse.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
[ -z "${SEFL_SANITIZE:-}" ] || exit 0 # two minutes of training
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
cd "$dir"

# ---- misuse
expect 2 "$SEFL" paper; says "--data DIR"
expect 2 "$SEFL" paper --figure block; says "figure"
expect 2 "$SEFL" paper --quick --shard 0/2; says "--shard must be I/N"
expect 2 "$SEFL" paper --quick --shard 3/2; says "--shard must be I/N"
expect 2 "$SEFL" paper --quick --set training.lr=1; says "--results"
expect 2 "$SEFL" paper --quick --set training.lrr=1 --results x; says "training.lr"
mkdir text
echo "a b c" > text/train.txt
expect 2 "$SEFL" paper --quick --data text; says "no valid text"
expect 0 "$SEFL" paper --list; says "0 of "
[ ! -e results ] || fail "--list wrote something"

# ---- all figures; a run that was stopped resumes
expect 0 "$SEFL" paper --quick --figure dropout --shard 1/4; says "figures and tables are in results-quick"
n=$(find results-quick/runs -name '*.json' | wc -l)
[ "$n" -eq 5 ] || fail "$n runs in a shard of 20"
expect 0 "$SEFL" paper --quick --figure projection --shard 2/2 --results second
ls second/projection* > /dev/null || fail "the second shard has no part of the projections"
began=$(date +%s)
expect 0 "$SEFL" paper --quick
took=$(($(date +%s) - began))
echo "sefl paper --quick took $took seconds"
case $out in *"lstm-sefl-b8-d0-z0-n10-r3-s1 "*) fail "repeated a finished run" ;; esac
for f in dropout blocks epsilon runs cost csr csr-union projection start models full; do
    head -n 2 "results-quick/$f.csv" | tail -n 1 | grep -q QUICK || fail "$f.csv is not marked"
done
for f in dropout blocks epsilon-10 epsilon-40 cost csr projection-quick start; do
    grep -q 'QUICK: ' "results-quick/$f.svg" || fail "$f.svg is not marked"
done
for f in cost/lstm-1-paillier csr/quick projection/quick-8-projected; do
    grep -q ',QUICK,' "results-quick/$f.csv" || fail "$f.csv is not marked"
done
[ "$(grep -c . results-quick/cost.csv)" -eq 9 ] || fail "cost.csv does not have 8 cases"
[ "$(grep -c ',yes$' results-quick/full.csv)" -eq 6 ] || fail "a run with crypto full differs from the one in the clear"
grep -q QUICK results-quick/tables.md || fail "tables.md is not marked"
grep -l '"scale":"full"' results-quick/runs/*.json && fail "a run is not marked"
out=$(cat results-quick/runs/lstm-cdp-b1-d0-z1-n10-r3-s1.json)
json
says '"classic_epsilon":5.29'
says '"epsilon_server":'
out=$(cat results-quick/runs/lstm-sefl-b8-d0-z0.01-n10-r3-s1.json)
says '"epsilon_why":'

# ---- the figures come from the results alone
cp -r results-quick kept
rm -f results-quick/*.csv results-quick/*.svg results-quick/tables.md
rm -rf runs
expect 0 "$SEFL" paper --quick --draw
diff -r kept results-quick || fail "drawn from the results, the figures differ"
expect 0 "$SEFL" paper --quick; says "figures and tables"
[ "$(echo "$out" | wc -l)" -eq 1 ] || fail "repeated finished runs: $out"

# ---- a start from a public model: a machine that lacks the model makes it again, and its result stays
rm -rf runs
rm results-quick/runs/lstm-sefl-b8-d0-z0.002-n10-r3-s1-start.json
expect 0 "$SEFL" paper --quick --figure start; says "lstm-sefl-b8-d0-z0.002-n10-r3-s1-start"
for f in lstm-none-b8-d0-z0-n1-r3-s1-public lstm-sefl-b8-d0-z0.002-n10-r3-s1-start; do
    hash=$(sed 's/.*"model_sha256":"\([0-9a-f]*\)".*/\1/' kept/runs/$f.json)
    grep -q "\"model_sha256\":\"$hash\"" results-quick/runs/$f.json || fail "$f has another model"
done

# ---- quick and full results do not mix; other settings need another folder
expect 1 "$SEFL" paper --results results-quick --draw; says "has QUICK results"
expect 1 "$SEFL" paper --quick --figure dropout --set training.lr=1 --results results-quick; says '"training.lr":"20" there'
mkdir foreign
echo mine > foreign/file
expect 1 "$SEFL" paper --quick --results foreign; says "is not a results folder"

# ---- text of a folder: two processes share the runs
expect 0 "$SEFL" synth --out text2 --tokens 60000
"$SEFL" paper --quick --data text2 --results shared --figure dropout > other 2>&1 &
other=$!
expect 0 "$SEFL" paper --quick --data text2 --results shared --figure dropout
wait $other || fail "$(cat other)"
[ -s runs/shared/text/train.txt ] || fail "no cut text"
for f in csr projection; do
    expect 0 "$SEFL" paper --quick --data text2 --results shared --figure $f; says "$f  quick"
done
expect 0 "$SEFL" paper --quick --results shared --figure dropout --list; says "20 of 20 runs are done"
