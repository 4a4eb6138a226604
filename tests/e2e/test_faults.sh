#!/bin/sh
# Disks that fail: one write or sync of each server and of a client fails, in one task of 3 rounds with 2 clients
# (tests/tools/preload/trial.c). A process that ends is started again. The task must complete with no round lost, every
# receipt in its sum once, and nothing revealed twice; the run prints how many calls there were.
#
# CI tries a seeded sample for about 20 s (SEFL_TEST_SEED). SEFL_SOAK tries every call; then every call with a kill in
# its place; then servers' disks that are full for 6 calls in a row: AS waits twice as long after each failed attempt.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
[ -z "${SEFL_SANITIZE:-}" ] || exit 0 # a preloaded library comes before the sanitizer's
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
seconds=${SEFL_FAULT_SECONDS:-20}
names="csp aggregator client-01 client-02"

# The program, with the fault that $dir/fault/NAME.fail has for this process.
program=$SEFL
SEFL=$dir/sefl
mkdir "$dir/fault"
cat > "$SEFL" << EOF
#!/bin/sh
case \$1 in csp | aggregator | client) ;; *) exec "$program" "\$@" ;; esac
folder=\$(dirname "\$3")
fault=$dir/fault/\$(basename "\$folder")
export LD_PRELOAD="$SEFL_TOOLS/trial.so" TRIAL_UNDER="\$folder" TRIAL_COUNT="\$fault.count" TRIAL_LOG="\$fault.log"
export TRIAL_FAIL="\$(cat "\$fault.fail")" TRIAL_KILL=\$(cat "$dir/fault/kill") TRIAL_TIMES=\$(cat "$dir/fault/times")
exec "$program" "\$@"
EOF
chmod +x "$SEFL"

fed_provision first --clients 2 --words 300 --set model.embed=16 --set model.hidden=16 \
    --set rounds.count=3 --set rounds.deadline_ms=60000

restart() { # NAME
    case $1 in
    aggregator) fed_aggregator --linger 2 ;;
    csp) fed_csp ;;
    *) fed_clients "${1#client-0}" ;;
    esac
}

# Starts what has ended with a failure; true once all have ended well.
settled() {
    all=0
    for name in $names; do
        fed_ended "$name" || { all=1; continue; }
        [ "$(cat "$dir/run/$name.rc")" -ne 0 ] || continue
        all=1
        restarts=$((restarts + 1))
        [ $restarts -lt 100 ] || fail "$what: $name ends again and again"
        restart "$name"
    done
    return $all
}

# CSP AGGREGATOR CLIENT KILL TIMES: a whole task, in which these calls and those after them fail (0: none)
trial() {
    what="from calls $1 (CSP), $2 (AS), $3 (client) on $5 fail, kill $4"
    restarts=0
    rm -rf "$dir/log" "$dir/run" "$dir/fault" "$dir/task"
    mkdir "$dir/fault"
    cp -a "$dir/first" "$dir/task"
    fed=$dir/task
    fed_names=
    for name in $names; do
        echo 0 > "$dir/fault/$name.fail"
    done
    echo "$4" > "$dir/fault/kill"
    echo "$5" > "$dir/fault/times"
    echo "$1" > "$dir/fault/csp.fail"
    echo "$2" > "$dir/fault/aggregator.fail"
    # a client whose disk stays full backs off for so long that its round ends without it
    [ "$5" -ne 1 ] || echo "$3" > "$dir/fault/client-01.fail"
    fed_csp
    until ! fed_ended csp; do fed_csp; done
    fed_aggregator --linger 2
    until ! fed_ended aggregator; do fed_aggregator --linger 2; done
    fed_clients 1 2
    limit=$(($(date +%s) + 150)) # restarts use fed_until
    until settled; do
        [ "$(date +%s)" -lt $limit ] || fail "$what: the task does not end"
        sleep 0.1
    done
    said=$("$SEFL_TOOLS/audit" "$fed" 2>&1) || fail "$what: $said"
    case $said in *"rounds 3 released 3 skipped 0 receipts 6 "*) ;; *) fail "$what: a round is lost: $said" ;; esac
    cmp -s "$fed/aggregator/ledger" "$fed/csp/ledger" || fail "$what: the ledgers differ"
    twice=$(grep -h '"event":"round revealed"' "$dir/log/csp" | sed 's/.*"round":\([0-9]*\).*/\1/' | sort | uniq -d)
    [ -z "$twice" ] || fail "$what: round $twice was revealed twice"
    verified=$("$SEFL" verify "$fed" 2>&1) || fail "$what: $verified"
}
counted() { cat "$dir/fault/$1.count"; }

trial 0 0 0 0 0
csp=$(counted csp) as=$(counted aggregator) client=$(counted client-01)
note "calls in a task of 3 rounds: CSP $csp, AS $as, a client $client"

every() { # STEP KILL TIMES: trials with a failure at every STEP-th call
    i=1
    while [ $i -le "$csp" ] || [ $i -le "$as" ] || [ $i -le "$client" ]; do
        trial $i $i $i "$2" "$3"
        i=$((i + $1)) n=$((n + 1))
    done
}
one_of() { fed_random "$1" "$2 $n" | sed 's/\..*//'; } # NUMBER NAME

n=0
if [ -n "${SEFL_SOAK:-}" ]; then
    every 1 0 1
    every 1 1 1
    every 5 0 6
else
    end=$(($(date +%s) + seconds))
    while [ "$(date +%s)" -lt $end ]; do
        kill=$((n % 2)) times=1
        [ $((n % 3)) -ne 2 ] || kill=0 times=4
        n=$((n + 1))
        trial "$(one_of "$csp" csp)" "$(one_of "$as" as)" "$(one_of "$client" client)" $kill $times
    done
fi
note "$n tasks with a failing call at each server and a client: no round lost, none revealed twice"
