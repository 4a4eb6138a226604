#!/bin/sh
# --device: a pretended GPU (tests/device/fake_engine.c) in the place of the plugin gives the processor's bytes; without
# plugin or GPU `cuda` ends with a sentence and `auto` goes on.
set -eu
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
export SEFL_CUDA_PLUGIN="$SEFL_FAKE_ENGINE"

expect 0 "$SEFL" synth --out "$dir/text" --tokens 6000 --seed 3
small="--data $dir/text --vocab $dir/text/vocab.txt --block 4 --epochs 2 --lr 0.5
    --set model.embed=16 --set model.hidden=16 --set model.batch=8 --set model.steps=10"

# shellcheck disable=SC2086
{
    expect 0 "$SEFL" train $small --out "$dir/cpu"
    expect 0 "$SEFL" train $small --device cuda --out "$dir/gpu"; says "a pretended GPU, bf16"
    cmp "$dir/cpu/model.safetensors" "$dir/gpu/model.safetensors" || fail "the GPU's model differs"
    cmp "$dir/cpu/checkpoint" "$dir/gpu/checkpoint" || fail "the GPU's checkpoint differs"
    # half on one device, half on the other; steps that are no multiple of a piece
    expect 0 "$SEFL" train $small --device cuda --max-steps 77 --out "$dir/half"
    expect 0 "$SEFL" train $small --out "$dir/half" --resume; says "resumed after step 77"
    cmp "$dir/cpu/model.safetensors" "$dir/half/model.safetensors" || fail "a checkpoint of the GPU differs"
    expect 0 "$SEFL" train $small --device cuda --set training.checkpoint_steps=9 --max-steps 18 --out "$dir/every"
    expect 1 "$SEFL" train $small --device cuda --lr 1000000 --set training.gradient_clip=0; says "diverged"
    expect 2 "$SEFL" train $small --device tpu; says "cpu"
}

eval_on() { "$SEFL" model eval "$dir/cpu/model.safetensors" --vocab "$dir/cpu/vocab.txt" --data "$dir/text" "$@"; }
expect 0 eval_on; first=$out
expect 0 eval_on --device cuda --precision fp32
[ "$out" = "$first" ] || fail "evaluation differs: $out"
expect 0 "$SEFL" bench train --device cuda --vocab 100 --batch 2 --steps 3 --clients 3 --model lstm --block 1 --seconds 0.01 --json
says '"unit":"TFLOP/s"'; says "training, 3 clients"

for state in none abi; do
    export SEFL_FAKE=$state
    expect 1 eval_on --device cuda; says "device cuda: "
    expect 0 eval_on --device auto; says "on the CPU: "; says "${first##*: }"
done
unset SEFL_FAKE
export SEFL_CUDA_PLUGIN="$dir/absent.so"
expect 1 eval_on --device cuda; says "cannot open the GPU plugin"
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0

# a simulation, and a client's settings
export SEFL_CUDA_PLUGIN="$SEFL_FAKE_ENGINE"
printf 'clients: 5\nrounds.count: 2\ndata.words: 300\nmodel: { embed: 8, hidden: 8 }\n' > "$dir/e.yml"
for device in cpu cuda; do
    expect 0 "$SEFL" simulate -c "$dir/e.yml" --device $device --precision fp32 --runs "$dir/$device-runs" --json --quiet
    printf '%s\n' "$out" | tail -n 1 | sed 's/.*"model_sha256":"\([0-9a-f]*\)".*/\1/' > "$dir/model-$device"
done
says '"device":"a pretended GPU, fp32"'
cmp "$dir/model-cpu" "$dir/model-cuda" || fail "the simulation's models differ"
expect 2 "$SEFL" simulate -c "$dir/e.yml" --device cuda --set privacy.unit=record --set privacy.records_max=4 --runs "$dir/r"
says "device: cpu"
expect 0 "$SEFL" plan --quick -c "$dir/e.yml" --device cuda; says "device: cpu, not cuda"
echo 'device: cuda' >> "$dir/e.yml"
expect 0 "$SEFL" config check "$dir/e.yml"; says ": valid: "
expect 0 "$SEFL" init "$dir/client.yml"; grep -q "device: cpu" "$dir/client.yml" || fail "client.yml has no device"

# measurements of the paper: clients in many slots at once
cd "$dir"
for f in csr projection; do
    for device in cpu cuda; do
        expect 0 "$SEFL" paper --quick --figure $f --device $device --results paper-$device
    done
    cmp paper-cpu/$f.csv paper-cuda/$f.csv || fail "$f differs on the GPU"
done
