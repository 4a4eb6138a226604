#!/bin/sh
# sefl model: creates, inspects, evaluates, exports and imports files; it refuses files that do not match.
set -eu
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"

expect 2 "$SEFL" model; says "an action is required"
expect 2 "$SEFL" model infos; says "did you mean 'info'?"
expect 2 "$SEFL" model info; says "requires a model file"
expect 2 "$SEFL" model new "$dir/m"; says "requires --vocab"
expect 2 "$SEFL" model eval "$dir/m" --vocab x; says "requires --data"
expect 2 "$SEFL" model export "$dir/m"; says "requires --out"
expect 2 "$SEFL" model generate "$dir/m" --vocab x --temperature 0; says "the minimum is 0.01"
expect 2 "$SEFL" model new "$dir/m" --vocab x --layers 99; says "from 1 to 32"
expect 1 "$SEFL" model info "$dir/none"; says "No such file"

expect 0 "$SEFL" synth --out "$dir/s" --clients 2 --tokens 3000 --seed 1
words=$dir/s/vocab.txt

for kind in lstm transformer; do
    m=$dir/$kind.safetensors
    expect 0 "$SEFL" model new "$m" --vocab "$words" --model $kind --embed 20 --hidden 24 --block 8 \
        --seed 7
    cp "$m" "$m.first"
    expect 1 "$SEFL" model new "$m" --vocab "$words" --seed 8; says "exists: use --force to replace it"
    cmp -s "$m" "$m.first" || fail "a refused run changed the model"
    expect 0 "$SEFL" model new "$m" --vocab "$words" --model $kind --embed 20 --hidden 24 --block 8 \
        --seed 7 --json --force; json
    cmp -s "$m" "$m.first" || fail "two models of one seed differ"
    expect 0 "$SEFL" model info "$m"; says "$kind, 420 words"; says "encoder.weight"; says "all finite"
    expect 0 "$SEFL" model info "$m" --json; says '"block":8'; json

    # block sizes of their own for embedding and decoder, to PyTorch's names and back
    expect 0 "$SEFL" model new "$m.mixed" --vocab "$words" --model $kind --embed 20 --hidden 24 --block 8 \
        --block-embed 16 --block-decoder 1
    expect 0 "$SEFL" model info "$m.mixed"; says "block 8 (embedding 16, decoder 1)"
    expect 0 "$SEFL" model info "$m.mixed" --json; says '"block_embed":16,"block_decoder":1'; json
    expect 0 "$SEFL" model export "$m.mixed" --out "$m.mixed.dense"
    expect 0 "$SEFL" model import "$m.mixed.dense" --out "$m.again" --block 8 --block-embed 16 --block-decoder 1
    cmp -s "$m.mixed" "$m.again" || fail "export and import changed the mixed model"
    expect 2 "$SEFL" model new "$m.mixed" --vocab "$words" --model $kind --embed 20 --hidden 20 --block 8 \
        --block-embed 16 --tied --force
    says "model.block_embed is 16 and model.block_decoder is 8"

    # nearly uniform before training: about as many choices as words
    expect 0 "$SEFL" model eval "$m" --vocab "$words" --data "$dir/s"; says "source: perplexity"
    expect 0 "$SEFL" model eval "$m" --vocab "$words" --data "$dir/s" --split test --json; json
    says '"best_perplexity":4.'
    expect 0 "$SEFL" model eval "$m" --vocab "$words" --data "$dir/s/train.txt"
    expect 2 "$SEFL" model eval "$m" --vocab "$words" --data "$dir/s" --split dev
    says "one of: train valid test"

    # another vocabulary is refused, even the same words in another order
    expect 0 "$SEFL" data vocab "$words" --list --out "$dir/shuffled" --block 8 --force
    expect 2 "$SEFL" model eval "$m" --vocab "$dir/shuffled" --data "$dir/s"
    says "another vocabulary"
    head -100 "$words" > "$dir/short"
    expect 2 "$SEFL" model generate "$m" --vocab "$dir/short"; says "100 words, the model 420"

    expect 0 "$SEFL" model generate "$m" --vocab "$words" --words 30 --seed 1 --prompt "offshore ,"
    says "offshore ,"
    first=$out
    expect 0 "$SEFL" model generate "$m" --vocab "$words" --words 30 --seed 1 --prompt "offshore ,"
    [ "$first" = "$out" ] || fail "one seed, two texts"
    case $out in *"replaced by"*) fail "known words are called unknown" ;; esac
    expect 0 "$SEFL" model generate "$m" --vocab "$words" --words 3 --prompt "offshore ,
offshore"
    expect 0 "$SEFL" model generate "$m" --vocab "$words" --words 3 --prompt "xyzzy , <unk> plugh"
    says "sefl model: not in the vocabulary, replaced by <unk>: xyzzy, plugh"
    expect 0 "$SEFL" model generate "$m" --vocab "$words" --words 30 --seed 2 --json; json

    # to PyTorch's names and back: the same bytes
    expect 2 "$SEFL" model export "$m" --out "$m" --force; says "is the input"
    cmp -s "$m" "$m.first" || fail "a refused export changed the model"
    expect 0 "$SEFL" model export "$m" --out "$dir/dense" --force
    # as many as the file has: after 8 bytes of length and the header, 4 bytes each
    head=$(od -An -tu8 -N8 "$dir/dense")
    says "block 1, $((($(stat -c %s "$dir/dense") - 8 - head) / 4)) parameters"
    expect 1 "$SEFL" model export "$m" --out "$dir/dense"; says "exists: use --force to replace it"
    expect 0 "$SEFL" model info "$dir/dense"; says "dense weights exported by sefl"; says "420 x 20"
    expect 1 "$SEFL" model eval "$dir/dense" --vocab "$words" --data "$dir/s"; says "model import"
    expect 0 "$SEFL" model import "$dir/dense" --block 8 --out "$dir/back" --force; says "0.0000 of their norm"
    cmp -s "$m" "$dir/back" || fail "export and import changed the model"
    expect 1 "$SEFL" model import "$dir/dense" --block 8 --out "$dir/back"; says "exists: use --force"
    expect 2 "$SEFL" model import "$dir/dense" --vocab "$words" --out "$words" --force
    says "is the input"
    expect 0 "$SEFL" model import "$dir/dense" --block 1 --vocab "$words" --out "$dir/back" --json \
        --force; json

    # truncated and changed files
    head -c 1000 "$m" > "$dir/cut"
    expect 1 "$SEFL" model info "$dir/cut"; says "cut:"
    { head -c 8 "$m"; printf X; tail -c +10 "$m"; } > "$dir/bad"
    expect 1 "$SEFL" model info "$dir/bad"; says "does not begin with '{'"
done
expect 1 "$SEFL" model info "$words"; says "header"

# words missing from the list: no comparison with the source, which knows all words
head -100 "$words" > "$dir/short"
grep -qx '<eos>' "$dir/short" || echo '<eos>' >> "$dir/short"
expect 0 "$SEFL" model new "$dir/m100" --vocab "$dir/short" --embed 8 --hidden 8
expect 0 "$SEFL" model eval "$dir/m100" --vocab "$dir/short" --data "$dir/s"
says "not comparable, because"; says "% of the words are unknown"
case $out in *above*) fail "compared all the same: $out" ;; esac
expect 0 "$SEFL" model eval "$dir/m100" --vocab "$dir/short" --data "$dir/s" --json; json
case $out in *best_*) fail "compared all the same: $out" ;; esac

# a FIFO and a link are not overwritten
mkfifo "$dir/fifo"
ln -s m100 "$dir/link"
for odd in fifo link; do
    expect 2 "$SEFL" model new "$dir/$odd" --vocab "$words" --force; says "is not a regular file"
    expect 2 "$SEFL" model export "$dir/back" --out "$dir/$odd" --force; says "is not a regular file"
done
if [ ! -p "$dir/fifo" ] || [ ! -L "$dir/link" ]; then fail "replaced"; fi

# control characters of a foreign file do not reach the terminal
printf '\156\000\000\000\000\000\000\000{"__metadata__":{"k\\u001b[31m":"v\\u001b[32m"},"e\\u001b[0m\\n":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}\000\000\000\000' > "$dir/evil"
expect 0 "$SEFL" model info "$dir/evil"; says "k?[31m: v?[32m"; says "e?[0m?"

# the example of the help works as printed
example=$("$SEFL" model --help | sed '1,/^example:/d')
[ -n "$example" ] || fail "no example"
mkdir "$dir/bin" "$dir/here"
ln -s "$SEFL" "$dir/bin/sefl"
(cd "$dir/here" && PATH="$dir/bin:$PATH" sh -c "$example") > "$dir/example.out" 2>&1 ||
    fail "the example: $(cat "$dir/example.out")"
echo ok
