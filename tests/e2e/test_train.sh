#!/bin/sh
# sefl train: learns generated text, saves, resumes to the same bytes, does not depend on threads.
set -eu
fail() { echo "FAILED: $*" >&2; exit 1; }
expect() { # CODE command...: runs it, output in $out
    want=$1
    shift
    rc=0
    out=$("$@" 2>&1) || rc=$?
    [ "$rc" -eq "$want" ] || fail "'$*' exits $rc, not $want: $out"
}
says() { case $out in *"$1"*) ;; *) fail "'$1' is not in: $out" ;; esac; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

expect 0 "$SEFL" data synth --out "$dir/text" --tokens 20000 --clients 2 --seed 3
small="--data $dir/text --block 8 --epochs 2 --lr 0.01 --set train.optimiser=adam
    --set model.embed=24 --set model.hidden=24 --set train.batch=10 --set train.bptt=20"

for model in lstm transformer; do
    # shellcheck disable=SC2086
    {
        expect 0 "$SEFL" train $small --model $model --threads 1 --out "$dir/$model-1"
        says "epoch 2/2"; says "test ppl"; says "best possible"; says "saved"
        expect 0 "$SEFL" train $small --model $model --threads 2 --out "$dir/$model-2" --json
        says '"valid_perplexity":'; says '"best_possible_perplexity":'
        cmp "$dir/$model-1/model.safetensors" "$dir/$model-2/model.safetensors" ||
            fail "$model: one and two threads differ"
        # stopped in the second epoch, then gone on with
        expect 0 "$SEFL" train $small --model $model --max-steps 130 --out "$dir/$model-3"
        says "--resume goes on"
        expect 1 "$SEFL" train $small --model $model --out "$dir/$model-3"; says "--resume"
        expect 2 "$SEFL" train $small --model $model --seed 2 --out "$dir/$model-3" --resume
        says "other settings"
        expect 0 "$SEFL" train $small --model $model --out "$dir/$model-3" --resume
        says "resumed after step 130"
        cmp "$dir/$model-1/model.safetensors" "$dir/$model-3/model.safetensors" ||
            fail "$model: a resumed run differs"
    }
    expect 0 "$SEFL" model info "$dir/$model-1/model.safetensors"; says "$model"
done

# a damaged checkpoint is refused
printf 'x' | dd of="$dir/lstm-1/checkpoint" bs=1 seek=5000 conv=notrunc 2> /dev/null
# shellcheck disable=SC2086
expect 1 "$SEFL" train $small --threads 1 --out "$dir/lstm-1" --resume
says "damaged"

expect 2 "$SEFL" train; says "--data"
expect 1 "$SEFL" train --data "$dir/nothing"
expect 2 "$SEFL" train --data "$dir/text" --model gru; says "lstm transformer"
expect 2 "$SEFL" train --data "$dir/text" --set train.lrr=1; says "did you mean"
expect 2 "$SEFL" train --data "$dir/text" --resume; says "--out"
# diverging training stops with a reason
# shellcheck disable=SC2086
expect 1 "$SEFL" train $small --set train.optimiser=sgd --set train.clip=0 \
    --lr 100000000000000000000; says "diverged"
