#!/bin/sh
# Clients train an external model with a command: simulated, and as real processes over TLS. Without noise the result is
# the exact average.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"

# a model of three values, all 0
header='{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[],"data_offsets":[8,12]}}'
{
    printf '%b\0\0\0\0\0\0\0' "$(printf '\\0%o' ${#header})"
    printf '%s\0\0\0\0\0\0\0\0\0\0\0\0' "$header"
} > "$dir/init.safetensors"
values() { od -An -v -t f4 -j $((8 + $(od -An -t u8 -N 8 "$1"))) "$1" | tr -s ' \n' ' '; }
[ "$(values "$dir/init.safetensors")" = " 0 0 0 " ] || fail "init.safetensors: $(values "$dir/init.safetensors")"

# client-1, client-2 and client-3 set every value to 1, 2 and 3: the average is 2
mkdir "$dir/its code"
cat > "$dir/its code/constant.sh" << 'END'
#!/bin/sh
set -eu
header=$((8 + $(od -An -t u8 -N 8 "$SEFL_MODEL")))
case $SEFL_CLIENT in *1) f='\000\000\200\077' ;; *2) f='\000\000\000\100' ;; *3) f='\000\000\100\100' ;; esac
{ head -c $header "$SEFL_MODEL" && printf "$f$f$f"; } > "$SEFL_OUT"
echo "$SEFL_CLIENT trained round $SEFL_ROUND of $SEFL_ROUNDS for $SEFL_TASK"
END
chmod +x "$dir/its code/constant.sh"

# ---- simulated -------------------------------------------------------------------------------------
cat > "$dir/its code/experiment.yml" << END
name: exact
clients: 3
protection: sefl
crypto: full
model: { body: external, init: ../init.safetensors }
privacy: { noise: none, clip: 8 }
rounds.count: 2
trainer: ./constant.sh
trainer_timeout: 60
END
cd "$dir"
"$SEFL" config check "its code/experiment.yml" > out 2>&1 || { cat out; fail "config check"; }
"$SEFL" simulate -c "its code/experiment.yml" > out 2>&1 || { cat out; fail "simulate"; }
[ "$(values runs/exact/model/last.safetensors)" = " 2 2 2 " ] || fail "simulated: $(values runs/exact/model/last.safetensors)"
grep -q "client-00003 trained round 2 of 2 for simulated" runs/exact/trainer.log || fail "no trainer.log of the simulation"
[ -z "$(find runs/exact -name 'trainer-*')" ] || fail "the simulation leaves files"
sed "s/name: exact/name: fails/; s/constant.sh/missing.sh/" "its code/experiment.yml" > "its code/fails.yml"
! "$SEFL" simulate -c "its code/fails.yml" > out 2>&1 || fail "a missing command trains"
grep -q "client-0000[123]: trainer: the command exited with 127" out || { cat out; fail "it does not say why"; }

# ---- real processes --------------------------------------------------------------------------------
fed_provision a --clients 3 --init init.safetensors --set model.body=external --set privacy.noise=none \
    --set privacy.clip=8 --set rounds.count=2
for n in 1 2 3; do
    echo "trainer: '\"$dir/its code/constant.sh\"'" >> "$fed/clients/client-0$n/client.yml"
done
mine=$fed/clients/client-01
{ cat "$mine/client.yml" && echo "server: 127.0.0.1:7000"; } > "$mine/good.yml"
"$SEFL" config check --for client "$mine/good.yml" > out 2>&1 || { cat out; fail "config check of a client"; }
sed "s/^trainer: .*/trainer: 'if true'/" "$mine/good.yml" > "$mine/wrong.yml"
! "$SEFL" config check --for client "$mine/wrong.yml" > out 2>&1 || fail "a wrong command passes"
grep -q "the command exited with" out || { cat out; fail "config check does not say what is wrong"; }
fed_servers --linger 2
fed_clients 1 2 3
for n in client-01 client-02 client-03; do fed_done $n 120; done
fed_done aggregator 60
[ "$(values "$fed/aggregator/models/round-2.safetensors")" = " 2 2 2 " ] ||
    fail "the average is $(values "$fed/aggregator/models/round-2.safetensors")"
for n in 1 2 3; do
    state=$fed/clients/client-0$n/state
    grep -q "client-0$n trained round 2 of 2 for" "$state/trainer.log" || fail "client-0$n has no trainer.log"
    [ "$(stat -c %a "$state/trainer.log")" = 600 ] || fail "others can read what the trainer prints"
    [ -z "$(find "$state" -name 'trainer-*')" ] || fail "client-0$n leaves trained values on the disk"
done
echo ok
