#!/bin/sh
# sefl simulate on several ranks of Open MPI: the same model, resuming after a rank was killed, groups.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
if ! "$SEFL-lab" version | grep -q '^MPI '; then # a build without MPI shows nothing of it
    ! "$SEFL" simulate --help | grep -q groups || fail "--groups in a build without MPI"
    ! ldd "$SEFL-lab" | grep -q libmpi || fail "linked with MPI"
    exit 0
fi
case $SEFL_SANITIZE in
*thread*) exit 0 ;; # Open MPI is not instrumented; property.simulate.ranks runs ranks as threads
esac
export ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ranks() { # NUMBER COMMAND...
    n=$1
    shift
    mpirun --oversubscribe --mca btl self,vader,tcp -n "$n" "$@"
}
hash_of() { grep -o '"model_sha256":"[0-9a-f]*"' "runs/$1/summary.json"; }
same() { [ "$(hash_of "$1")" = "$(hash_of "$2")" ] || fail "runs $1 and $2 have different models"; }
cd "$dir"
cat > e.yml <<'END'
clients: 6
crypto.key_bits: 2048
data: { words: 200 }
model: { embed: 8, hidden: 8 }
network: { dropout: 0.2 }
rounds: { count: 2, threshold: 2 }
threads: 1
END

# the same model for 1, 2 and 4 ranks, in the clear and encrypted
for how in crypto=clear crypto=full; do
    expect 0 "$SEFL" simulate -c e.yml --quiet --set name="$how-1" --set "$how"
    for n in 2 4; do
        expect 0 ranks $n "$SEFL" simulate -c e.yml --set name="$how-$n" --set "$how"; says "$n ranks with 1 thread"
        same "$how-1" "$how-$n"
    done
done
same crypto=clear-1 crypto=full-1
paillier='--quiet --set crypto=full --set crypto.scheme=paillier --set rounds.count=1'
# shellcheck disable=SC2086 # options
expect 0 "$SEFL" simulate -c e.yml --set name=p-1 $paillier
# shellcheck disable=SC2086
expect 0 ranks 2 "$SEFL" simulate -c e.yml --set name=p-2 $paillier
same p-1 p-2

# a sweep: one run per group
expect 2 "$SEFL" simulate -c e.yml --groups 2; says "start sefl with mpirun"
expect 0 ranks 2 "$SEFL" simulate -c e.yml --groups 2 --set name=s --set sweep.training.lr=5,20
says "s-training.lr=5  round 2/2"; says "s-training.lr=20  round 2/2"
same s-training.lr=20 crypto=clear-1

# a killed rank ends the job; the run resumes, with any number of ranks
set -- --set rounds.count=60 --set data.words=1000 --set network.dropout=0.1
expect 0 "$SEFL" simulate -c e.yml --quiet --set name=whole "$@"
# shellcheck disable=SC2016 # the inner shell expands it
ranks 3 sh -c 'echo $$ > "pid.$OMPI_COMM_WORLD_RANK"; exec "$@"' sh \
    "$SEFL" simulate -c e.yml --set name=killed "$@" > killed.out 2>&1 &
job=$!
tries=0
until grep -q 'round 3/' killed.out; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || fail "no third round: $(cat killed.out)"
    sleep 0.05
done
kill -9 "$(cat pid.1)"
! wait $job || fail "a job with a dead rank succeeded"
out=$(cat killed.out)
says "rank 1 "; says "run the same command again to resume after the last finished round"
[ ! -e runs/killed/summary.json ] || fail "the run was over before the rank died"
expect 0 ranks 2 "$SEFL" simulate -c e.yml --set name=killed "$@"; says "resuming after round"
same whole killed

# a failure before the first round: one message
expect 2 ranks 2 "$SEFL" simulate -c e.yml --set data.path=nowhere; says "nowhere"
case $out in *"rank 1 of 2: "*) fail "two messages: $out" ;; *) ;; esac
