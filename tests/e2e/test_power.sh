#!/bin/sh
# Power loss: the folders of CSP, AS and the clients are three ext4 images (loop devices; needs root). At seeded moments
# (SEFL_TEST_SEED) one party is stopped, its image is copied as the device has it, and the party dies; it continues on
# the copy, without anything that was not written through. After the run no acknowledged update is lost or counted
# twice, and no round is revealed twice.
#
# A few losses in CI, 60 with SEFL_SOAK. Exits with 77 where the system permits no loop device.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
losses=3
[ -z "${SEFL_SOAK:-}" ] || losses=60
note "seed ${SEFL_TEST_SEED:-1}, $losses losses of power"

mounted=
power_end() {
    # shellcheck disable=SC2086 # names have no blanks
    fed_kill KILL $fed_names
    wait
    for place in $mounted; do umount "$place" || umount -l "$place" || :; done
    fed_end
}
trap power_end EXIT

attach() { # PART: its image at its folder; long commit intervals, so that little is written through
    mount -o loop,commit=300 "$dir/$1.img" "$fed/$1" 2> /dev/null || return 1
    mounted="$mounted $fed/$1"
}
detach() { # PART
    fed_until 10 "umount of $1" umount "$fed/$1"
    mounted=$(echo " $mounted " | sed "s| $fed/$1 | |")
}

# PART: moves its folder into an image
image() {
    truncate -s 96M "$dir/$1.img"
    mkfs.ext4 -q -F "$dir/$1.img" > /dev/null 2>&1 || exit 77
    mv "$fed/$1" "$dir/$1.files"
    mkdir "$fed/$1"
    attach "$1" || { note "no loop devices here"; exit 77; }
    cp -a "$dir/$1.files/." "$fed/$1/"
    sync -f "$fed/$1"
}

names_of() { # PART
    case $1 in clients) echo "client-01 client-02 client-03" ;; *) echo "$1" ;; esac
}
is_stopped() { # NAME
    fed_ended "$1" || case $(cut -d' ' -f3 "/proc/$(cat "$dir/run/$1.pid")/stat") in [tT]) ;; *) false ;; esac
}
# Copies the image until nothing was written to it meanwhile: one moment of the device.
copied() { cp "$dir/$1.img" "$dir/$1.copy" && cmp -s "$dir/$1.img" "$dir/$1.copy"; }

lose() { # PART
    # shellcheck disable=SC2046
    fed_kill STOP $(names_of "$1")
    for name in $(names_of "$1"); do fed_until 10 "stop of $name" is_stopped "$name"; done
    fed_until 20 "copy of $1" copied "$1"
    # shellcheck disable=SC2046
    fed_kill KILL $(names_of "$1")
    for name in $(names_of "$1"); do fed_wait "$name" 10; done
    cp -f "$fed/$1/at" "$dir/at" 2> /dev/null || :
    detach "$1"
    mv "$dir/$1.copy" "$dir/$1.img"
    attach "$1" || fail "the image of $1 does not mount after the loss"
    cp -f "$dir/at" "$fed/$1/at" 2> /dev/null || : # the test's own file: the port
    rm -f "$dir/at"
}
restart() { # PART
    case $1 in
    aggregator) fed_aggregator --linger 60 ;;
    csp) fed_csp ;;
    *) fed_clients 1 2 3 ;;
    esac
}

is_over() { grep -q '"event":"task over"' "$dir/log/aggregator" || fed_ended aggregator; }

check() {
    for name in client-01 client-02 client-03 csp; do fed_done $name 60; done
    fed_kill TERM aggregator
    fed_done aggregator 20
    said=$("$SEFL" verify "$fed" 2>&1) || fail "$said"
    said=$("$SEFL_TOOLS/audit" "$fed" 2>&1) || fail "$said"
    case $said in *" skipped 0 "*) ;; *) fail "a round is lost: $said" ;; esac
    # a log line may be of a reveal whose mark the power loss took: its output had not left either
    note "run $run: $said"
    for part in csp aggregator clients; do detach $part; done
}

n=0
run=0
while [ "$n" -lt $losses ]; do
    run=$((run + 1))
    fed_names=
    rm -rf "$dir/log" "$dir/run"
    fed_provision "run-$run" --clients 3 --words 300 --set model.embed=16 --set model.hidden=16 \
        --set rounds.count=12 --set rounds.deadline_ms=60000
    for part in csp aggregator clients; do image $part; done
    fed_servers --linger 60
    fed_clients 1 2 3
    while [ "$n" -lt $losses ] && ! is_over; do
        sleep "$(fed_random 1.2 "time $n")"
        case $((n % 3)) in
        0) part=csp ;;
        1) part=aggregator ;;
        *) part=clients ;;
        esac
        lose $part
        n=$((n + 1))
        restart $part
    done
    check
    rm -rf "$fed" "$dir"/*.img "$dir"/*.files
done
note "$n losses of power in $run runs"
