#!/bin/sh
# sefl data: statistics, vocabularies, clients' shares, generated text, and error handling.
set -eu
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"

# misuse
expect 2 "$SEFL" data; says "an action is required"
expect 2 "$SEFL" data stat x; says "did you mean 'stats'?"
expect 2 "$SEFL" data stats; says "requires a file or folder"
expect 2 "$SEFL" data vocab x; says "requires --out"
expect 2 "$SEFL" data split x --out y; says "requires --clients"
expect 2 "$SEFL" synth --out "$dir/s" --clients 0; says "1 to"
expect 2 "$SEFL" synth --out "$dir/s" --alpha 0,5; says "from 0 to 1000"
expect 2 "$SEFL" synth --out "$dir/s" --tokns 5; says "did you mean --tokens?"
expect 2 "$SEFL" data split x --out y --clients 2 --by topic; says "one of: contiguous"
expect 2 "$SEFL" data stats x --format xml; says "one of: guess"
expect 1 "$SEFL" data stats "$dir/none"; says "No such file"
expect 1 "$SEFL" data stats "$dir"; says "no training text"

# bad files: the error says what and where
printf 'fine\n\377\n' > "$dir/latin1.txt"
expect 1 "$SEFL" data stats "$dir/latin1.txt"; says "latin1.txt:2: byte 1 (0xff) is not UTF-8"
: > "$dir/empty.txt"
expect 1 "$SEFL" data stats "$dir/empty.txt"; says "empty.txt: has no words"
printf '{"text":"a"}\n{"body":"b"}\n' > "$dir/docs.jsonl"
expect 1 "$SEFL" data stats "$dir/docs.jsonl"; says "docs.jsonl:2: no member is named \"text\""
expect 1 "$SEFL" data stats "$dir/docs.jsonl" --field body; says "docs.jsonl:1:"
printf 'id,text\n1,"a b\nc"\n2,d\n' > "$dir/docs.csv"
expect 0 "$SEFL" data stats "$dir/docs.csv" --json; says '"documents":2'; says '"tokens":7'; json

# generated text: the same bytes for the same seed
expect 0 "$SEFL" synth --out "$dir/s" --clients 3 --tokens 20000 --seed 5
says "best possible perplexity 4."
expect 0 "$SEFL" synth --out "$dir/t" --clients 3 --tokens 20000 --seed 5 --json; json
says '"best_perplexity":4.'
(cd "$dir/s" && find . -type f -exec sha256sum {} + | sort) > "$dir/s.sums"
(cd "$dir/t" && find . -type f -exec sha256sum {} + | sort) > "$dir/t.sums"
cmp -s "$dir/s.sums" "$dir/t.sums" || fail "two runs with one seed differ"
expect 1 "$SEFL" synth --out "$dir/t" --clients 3 --tokens 20000 --seed 6
says "train.txt exists: use --force to replace it"
cmp -s "$dir/s/train.txt" "$dir/t/train.txt" || fail "a refused run changed the text"
mkdir -p "$dir/only/client-000"
expect 1 "$SEFL" synth --out "$dir/only"; says "already has client-000"
expect 0 "$SEFL" synth --out "$dir/t" --clients 3 --tokens 20000 --seed 6 --force
if cmp -s "$dir/s/train.txt" "$dir/t/train.txt"; then fail "two seeds give one text"; fi
[ "$(cat "$dir"/s/client-*/train.txt | sort | sha256sum)" = "$(sort "$dir/s/train.txt" | sha256sum)" ] ||
    fail "the pooled text is not that of the clients"

# its statistics agree with wc: one token per word and one per line
expect 0 "$SEFL" data stats "$dir/s" --vocab "$dir/s/vocab.txt" --json; json
tokens=$(($(wc -w < "$dir/s/train.txt") + $(wc -l < "$dir/s/train.txt")))
says "\"train\":{\"tokens\":$tokens,"; says '"unknown":0'

# vocabularies: the hash is that of the file; an interleaved one is a permutation
expect 0 "$SEFL" data vocab "$dir/s" --out "$dir/v1" --order frequency; says "order frequency"
says "$(sha256sum "$dir/v1" | cut -d' ' -f1)"
expect 0 "$SEFL" data vocab "$dir/s" --out "$dir/v2" --block 8 --json; json
[ "$(sort "$dir/v1" | sha256sum)" = "$(sort "$dir/v2" | sha256sum)" ] || fail "orders differ in words"
if cmp -s "$dir/v1" "$dir/v2"; then fail "two orders are the same"; fi
expect 0 "$SEFL" data vocab "$dir/v1" --list --out "$dir/v3" --order appearance
cmp -s "$dir/v1" "$dir/v3" || fail "a list read in its own order changed"
expect 0 "$SEFL" data vocab "$dir/s" --out "$dir/v4" --max-words 50 --counts
[ "$(wc -l < "$dir/v4")" -eq 50 ] || fail "--max-words"
expect 0 "$SEFL" data stats "$dir/s" --vocab "$dir/v4" --json; json
case $out in *'"unknown":0'*) fail "50 words cannot be enough" ;; esac

# BPE: trained on raw text, public and hashed; any bytes come back; a word list is not taken for one
printf 'Herr M\303\274ller, 12,5 %%\r\n\nHerr M\303\274ller\377\000 the end' > "$dir/raw"
expect 2 "$SEFL" data vocab "$dir/s" --kind bpe --size 257 --out "$dir/b"; says "258 to"
expect 2 "$SEFL" data vocab "$dir/s" --kind bpe --max-words 300 --out "$dir/b"; says "use --size"
expect 0 "$SEFL" data vocab "$dir/s" --kind bpe --size 400 --out "$dir/b"; says "400 BPE tokens, order interleaved"
says "$(sha256sum "$dir/b" | cut -d' ' -f1)"; says "contains parts of the text"
expect 0 "$SEFL" data vocab "$dir/b" --list --kind bpe --order appearance --out "$dir/b2" --json; json
cmp -s "$dir/b" "$dir/b2" || fail "a BPE vocabulary read in its own order changed"
expect 1 "$SEFL" data vocab "$dir/b" --list --out "$dir/b3"; says "is a BPE vocabulary, not a word list"
expect 1 "$SEFL" data vocab "$dir/v1" --list --kind bpe --out "$dir/b3"; says "is not a BPE vocabulary"
for form in "" --ids; do
    # shellcheck disable=SC2086 # a flag, or none
    expect 0 "$SEFL" data tokenize "$dir/raw" --vocab "$dir/b" $form --out "$dir/tokens" --force
    # shellcheck disable=SC2086
    expect 0 "$SEFL" data tokenize "$dir/tokens" --vocab "$dir/b" $form --decode --out "$dir/back" --force
    cmp "$dir/raw" "$dir/back" || fail "tokenize and --decode are not inverse"
done
expect 2 "$SEFL" data tokenize "$dir/raw" --decode; says "need --vocab"
expect 2 "$SEFL" data tokenize "$dir/raw" --vocab "$dir/v1"; says "is a word list"
head -n 1 "$dir/raw" > "$dir/line"
expect 0 "$SEFL" data tokenize "$dir/line"; says "Herr M$(printf '\303\274')ller , 12 , 5 %"
expect 0 "$SEFL" data stats "$dir/s" --vocab "$dir/b"; says "BPE tokens"; says "per word"
expect 0 "$SEFL" data stats "$dir/s" --vocab "$dir/b" --json; json; says '"unknown_share":0'; says '"tokens_per_word":'

# no file is overwritten without --force; the input and anything that is not a regular file never are
cp "$dir/v1" "$dir/v1.was"
expect 1 "$SEFL" data vocab "$dir/s" --out "$dir/v1"; says "v1 exists: use --force to replace it"
expect 2 "$SEFL" data vocab "$dir/v1" --list --out "$dir/v1" --force; says "is the input"
expect 2 "$SEFL" data vocab "$dir/s" --out "$dir/s/../s/train.txt" --force; says "is the input"
cmp -s "$dir/v1" "$dir/v1.was" || fail "a refused run changed its file"
expect 0 "$SEFL" data vocab "$dir/s" --out "$dir/v1" --order appearance --force
if cmp -s "$dir/v1" "$dir/v1.was"; then fail "--force wrote nothing"; fi
mkfifo "$dir/fifo"
ln -s v2 "$dir/link"
for odd in fifo link s; do
    expect 2 "$SEFL" data vocab "$dir/s" --out "$dir/$odd"; says "$odd is not a regular file"
    expect 2 "$SEFL" data vocab "$dir/s" --out "$dir/$odd" --force; says "$odd is not a regular file"
done
[ -p "$dir/fifo" ] || fail "the FIFO was replaced"
[ -L "$dir/link" ] || fail "the link was replaced"
# an existing client file is detected where it would be created
mkdir -p "$dir/odd/client-000"
ln -s ../../v2 "$dir/odd/client-000/valid.txt"
expect 2 "$SEFL" synth --out "$dir/odd" --clients 1 --tokens 1000 --force
says "valid.txt is not a regular file"
[ -L "$dir/odd/client-000/valid.txt" ] || fail "the client's link was replaced"

# stopped by a signal: no unfinished file remains
for sig in INT TERM KILL; do
    # a background job of a shell ignores SIGINT; python3 can undo that
    [ $sig != INT ] || command -v python3 > /dev/null || continue
    if [ $sig = INT ]; then
        python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$SEFL" synth --out "$dir/big-$sig" --tokens 900000000 \
            --clients 2 2> "$dir/big.err" &
    else
        "$SEFL" synth --out "$dir/big-$sig" --tokens 900000000 --clients 2 2> "$dir/big.err" &
    fi
    pid=$!
    n=0
    until [ -d "$dir/big-$sig/client-000" ]; do
        n=$((n + 1))
        [ $n -lt 300 ] || fail "no file is being written"
        sleep 0.1
    done
    sleep 0.2
    kill -$sig $pid
    rc=0
    wait $pid 2> /dev/null || rc=$?
    if [ $sig = KILL ]; then
        [ $rc -eq 137 ] || fail "SIG$sig: exit $rc"
    else
        [ $rc -eq 1 ] || fail "SIG$sig: exit $rc"
        out=$(cat "$dir/big.err"); says "is incomplete"
    fi
    [ -z "$(find "$dir/big-$sig" -name '*.tmp-*')" ] || fail "SIG$sig leaves an unfinished file"
done

# clients' shares: nothing is lost or duplicated
for by in contiguous round-robin article dirichlet; do
    expect 0 "$SEFL" data split "$dir/s" --out "$dir/p-$by" --clients 5 --by $by --seed 3
    says "client-004"
    [ "$(cat "$dir/p-$by"/client-*/train.txt | sort | sha256sum)" = \
        "$(sort "$dir/s/train.txt" | sha256sum)" ] || fail "split --by $by lost or doubled lines"
done
expect 0 "$SEFL" data split "$dir/docs.csv" --out "$dir/pc" --clients 2 --by article --json; json
expect 0 "$SEFL" data stats "$dir/pc/client-000/train.jsonl"
expect 1 "$SEFL" data split "$dir/docs.csv" --out "$dir/pc" --clients 1
says "exists: use --force to replace it"
expect 1 "$SEFL" data split "$dir/s" --out "$dir/pc" --clients 1; says "already has client-00"
expect 0 "$SEFL" data split "$dir/docs.csv" --out "$dir/pc" --clients 2 --by article --force
expect 2 "$SEFL" data split "$dir/p-article/client-000" --out "$dir/p-article" --clients 2 --force
says "is the input"
expect 2 "$SEFL" data split "$dir/docs.csv" --out "$dir/pd" --clients 9 --by article
says "2 documents are too few for 9 clients"

# a full disk is an error
if [ -c /dev/full ]; then
    rc=0
    "$SEFL" data stats "$dir/s" > /dev/full 2> /dev/null || rc=$?
    [ "$rc" -eq 1 ] || fail "writing to a full disk exits $rc"
fi
expect 1 "$SEFL" data vocab "$dir/s" --out "$dir/no/such/folder"; says "cannot create"
expect 1 sh -c 'ulimit -f 20; exec "$@"' sh "$SEFL" synth --out "$dir/limit"; says "File too large"
[ -z "$(find "$dir/limit" -name '*.tmp-*')" ] || fail "a full disk leaves an unfinished file"
echo ok
