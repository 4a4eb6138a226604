# shellcheck shell=sh disable=SC2119,SC2120
# Sourced by tests that run whole federations: real processes on loopback, from a provisioned folder.
#
#     . "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
#     fed_provision a --clients 4 --set rounds.count=3   # $fed is the folder
#     fed_servers; fed_clients 1 2 3 4
#     fed_wait aggregator 60                              # its exit code in $rc
#
# Every process runs in its own subshell, which records its id and its exit, so the test signals only processes that
# it started, and none after its exit. Every wait has a limit. When a test fails, it prints the logs; in any case it
# leaves no process and no file.
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
fail() {
    echo "FAILED: $*" >&2
    fed_show
    exit 1
}
# Instrumented programs are slow: this factor multiplies every time limit below.
t=1
case ${SEFL_SANITIZE:-} in thread) t=20 ;; ?*) t=5 ;; esac
note() { echo "$(date +%T) $*"; }

fed=
fed_names=
trap fed_end EXIT
trap 'exit 1' INT TERM HUP

fed_running() { [ -s "$dir/run/$1.pid" ] && [ ! -e "$dir/run/$1.rc" ]; }

fed_kill() { # SIGNAL NAME...
    fed_signal=$1
    shift
    for fed_n in "$@"; do
        if fed_running "$fed_n"; then kill "-$fed_signal" "$(cat "$dir/run/$fed_n.pid")" 2> /dev/null || :; fi
    done
}

fed_end() {
    # shellcheck disable=SC2086 # names have no blanks
    fed_kill KILL $fed_names
    wait
    rm -rf "$dir"
}

fed_show() {
    for fed_n in $fed_names; do
        echo "---- $fed_n: $(cat "$dir/run/$fed_n.rc" 2> /dev/null || echo running)"
        tail -n "${FED_LOG_LINES:-25}" "$dir/log/$fed_n" 2> /dev/null || :
    done >&2
}

# NAME COMMAND...: runs it in the background and appends its output to $dir/log/NAME
fed_start() {
    fed_n=$1
    shift
    mkdir -p "$dir/run" "$dir/log"
    rm -f "$dir/run/$fed_n.rc" "$dir/run/$fed_n.pid"
    (
        trap - EXIT INT TERM HUP
        set +e
        "$@" >> "$dir/log/$fed_n" 2>&1 &
        echo $! > "$dir/run/$fed_n.pid.tmp"
        mv "$dir/run/$fed_n.pid.tmp" "$dir/run/$fed_n.pid"
        wait $! 2> /dev/null
        echo $? > "$dir/run/$fed_n.rc.tmp"
        mv "$dir/run/$fed_n.rc.tmp" "$dir/run/$fed_n.rc"
    ) &
    case " $fed_names " in *" $fed_n "*) ;; *) fed_names="$fed_names $fed_n" ;; esac
    until [ -s "$dir/run/$fed_n.pid" ]; do sleep 0.01; done
}

# SECONDS WHAT COMMAND...: waits until the command succeeds
fed_until() {
    fed_limit=$(($1 * 20 * t))
    fed_what=$2
    shift 2
    fed_i=0
    until "$@"; do
        fed_i=$((fed_i + 1))
        [ $fed_i -lt $fed_limit ] || fail "no $fed_what after $((fed_limit / 20)) s"
        sleep 0.05
    done
}

fed_ended() { [ -e "$dir/run/$1.rc" ]; }
# NAME SECONDS: waits until it ends; exit code in $rc
fed_wait() {
    fed_until "$2" "end of $1" fed_ended "$1"
    rc=$(cat "$dir/run/$1.rc")
}
# NAME SECONDS: waits; it must exit with 0
fed_done() {
    fed_wait "$1" "$2"
    [ "$rc" -eq 0 ] || fail "$1 exits $rc"
}

fed_provision() { # NAME ARGUMENTS...
    fed=$dir/$1
    shift
    "$SEFL" provision "$fed" --port-base 0 "$@" > "$dir/provision.out" 2>&1 ||
        { cat "$dir/provision.out" >&2; fail "provision $*"; }
}

# ROLE: true if it is ready or has ended
fed_ready() { [ -s "$fed/$1/ready" ] || fed_ended "$1"; }

# Prints a free address for a server that starts again there: below the ports that the system gives to callers.
fed_address() {
    while at=$(shuf -i 10000-32000 -n 1); grep -q "$(printf ':%04X ' "$at")" /proc/net/tcp; do :; done
    echo "127.0.0.1:$at"
}

fed_csp() { # ARGUMENTS...
    fed_at=$(cat "$fed/csp/at" 2> /dev/null || fed_address)
    rm -f "$fed/csp/ready"
    fed_start csp "$SEFL" csp --config "$fed/csp/csp.yml" --listen "$fed_at" "$@"
    fed_until 20 "csp" fed_ready csp
    fed_ended csp || cp "$fed/csp/ready" "$fed/csp/at"
}

fed_aggregator() { # ARGUMENTS...
    fed_at=$(cat "$fed/aggregator/at" 2> /dev/null || fed_address)
    rm -f "$fed/aggregator/ready"
    fed_start aggregator "$SEFL" aggregator --config "$fed/aggregator/aggregator.yml" \
        --listen "$fed_at" --csp "$(cat "$fed/csp/at")" "$@"
    fed_until 20 "aggregator" fed_ready aggregator
    fed_ended aggregator || cp "$fed/aggregator/ready" "$fed/aggregator/at"
}

fed_servers() {
    fed_csp
    fed_aggregator "$@"
}

fed_clients() { # NUMBER...
    for fed_c in "$@"; do
        fed_c=client-$(printf %02d "$fed_c")
        fed_start "$fed_c" "$SEFL" client --config "$fed/clients/$fed_c/client.yml" \
            --server "$(cat "$fed/aggregator/at")"
    done
}

# A random number in [0, LIMIT) with two decimals, derived from SEFL_TEST_SEED and the arguments.
fed_random() { # LIMIT NAME
    awk -v limit="$1" -v seed="$(printf '%s %s' "${SEFL_TEST_SEED:-1}" "$2" | cksum | cut -d' ' -f1)" \
        'BEGIN { srand(seed); rand(); printf "%.2f\n", limit * rand() }'
}
