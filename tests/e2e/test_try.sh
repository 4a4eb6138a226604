#!/bin/sh
# sefl try: raw text in a folder becomes a federation, a model in two forms, a report and a sample; the command that it
# prints for several machines works; wrong text and wrong folders are refused.
set -eu
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
cd "$dir"

# ---- text as people have it: a letter, records, a compressed file, a picture -------------------
"$SEFL" synth --out synth --tokens 12000 --seed 3 > synth.log 2>&1 || fail "synth"
mkdir -p mine/sub
{ echo "Dear Ms Müller,"; head -n 300 synth/train.txt; } > mine/letter.txt
sed -n '301,500p' synth/train.txt | awk '{ printf "{\"text\": \"%s.\"}\n", $0 }' > mine/notes.jsonl
sed -n '501,700p' synth/train.txt | gzip > mine/sub/old.txt.gz
printf '\211PNG\000\001' > mine/picture.png
expect 0 "$SEFL" try mine --out t --clients 3 --rounds 2 --set model.embed=16 --set model.hidden=16
says "3 files"
says "1 file skipped"
says "% of the training words are not in the public text"
says "sub-word tokens, made from the public text"
says "round  2/2"
says "per word"
says "the model writes"
says "none claimed"
for file in model.safetensors model-pytorch.safetensors vocab.txt report.html sample.txt task.settings metrics.jsonl; do
    [ -s "t/$file" ] || fail "there is no t/$file"
done
grep -q '^sefl-bpe ' t/vocab.txt || fail "the vocabulary is not of the kind bpe"
[ "$(wc -c < t/sample.txt)" -gt 40 ] || fail "the sample: $(cat t/sample.txt)"
[ "$(sha256sum < t/vocab.txt)" = "$(sha256sum < t/federation/public/vocab.txt)" ] || fail "another vocabulary"
expect 0 "$SEFL" model generate t/model.safetensors --vocab t/vocab.txt --prompt "Frau Müller, " --words 5
says "Frau Müller, "
expect 0 "$SEFL" model info t/model-pytorch.safetensors
says "rnn.weight_hh_l0"
expect 0 "$SEFL" report t
# the vocabulary comes from the held-out text alone: a name that only the training text has is no token
if grep -q Müller t/text/valid.jsonl; then fail "the name is in the held-out text"; fi
! grep -q 'ller' t/vocab.txt || fail "the vocabulary has a private name"

# ---- the same on several machines: the printed command -----------------------------------------
command=$("$SEFL" try mine --out t --clients 3 --rounds 2 --set model.embed=16 --set model.hidden=16 |
    sed -n '/ provision trial /,$p' | tr -d '\\\n')
# shellcheck disable=SC2086 # a command line
expect 0 $command
says "kits/aggregator.tar"
[ -s trial/kits/client-03.tar ] || fail "no kit for the third client"

# ---- refusals ----------------------------------------------------------------------------------
expect 0 "$SEFL" try mine --out t --clients 2 --rounds 1 --set model.embed=16 --set model.hidden=16 --json
json
mkdir empty precious
echo keep > precious/file
expect 1 "$SEFL" try nothing --out n
says "cannot read nothing"
expect 1 "$SEFL" try empty --out n
says "has no text"
expect 1 "$SEFL" try mine --out precious
says "precious is not empty"
[ "$(cat precious/file)" = keep ] || fail "try has changed another folder"
expect 2 "$SEFL" try mine/letter.txt --out n --clients 60
says "too few for 60 clients"
[ -s t/model.safetensors ] || fail "no model to lose"
expect 1 "$SEFL" try empty --out t
expect 1 "$SEFL" try nothing --out t
[ -s t/model.safetensors ] || fail "a wrong path has removed the earlier trial"
[ ! -e n ] || fail "a refused trial leaves a folder"
mkdir own && cp mine/letter.txt own/try.txt
expect 1 "$SEFL" try mine --out own
says "own is not empty"
expect 2 "$SEFL" try own/try.txt --out own
says "is in the output folder"
cmp mine/letter.txt own/try.txt || fail "try has changed the user's own try.txt"
cd mine # its own folder of results, runs/try, is inside the text
expect 0 "$SEFL" try . --rounds 1 --clients 2 --set model.embed=16 --set model.hidden=16 --json
first=$(printf '%s' "$out" | sed 's/.*"files":\([0-9]*\).*/\1/')
expect 0 "$SEFL" try . --rounds 1 --clients 2 --set model.embed=16 --set model.hidden=16 --json
says "\"files\":$first,"
cd ..
printf 'good\nM\374ller\n' > latin.txt
expect 1 "$SEFL" try latin.txt --out n
says "latin.txt:2"
expect 2 "$SEFL" try
expect 2 "$SEFL" try mine --clients 1
expect 2 "$SEFL" try mine --set privacy.nonsense=1
echo ok
