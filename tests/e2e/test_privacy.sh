#!/bin/sh
# sefl privacy: always prints two epsilons, exits with 2 and names bad values, and prints a ledger's total.
set -eu
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
says_not() { case $out in *"$1"*) fail "'$1' is in: $out" ;; *) ;; esac; }
plan() { # CODE option...: a good plan with these options added
    code=$1
    shift
    expect "$code" "$SEFL" privacy plan --clients 3000 --rounds 100 --delta 1e-6 "$@"
}

plan 0 --epsilon 8 --sample-rate 0.1
says_not "WARNING"
says "epsilon against a server"; says "epsilon against others"; says "replacement"
says "limited by the budget"; says "classic formula"; says "not a total"; says "smallest cohort"
says "z                 6.909"
says_not "PLD"
plan 0 --epsilon 8 --sample-rate 0.1 --json; says '"server":{"claimed":true'; says '"others":{'
says '"z":6.909'
plan 0 --z 0.2; says "no differential privacy claimed"; says_not "limited by the budget"
plan 0 --z 0.2 --json; says '"claimed":false,"epsilon":null,"statement":"no differential privacy claimed"'
plan 0 --epsilon 8 --sample-rate 0.1 --max-rounds-per-client 5
says "WARNING"; says "150 clients on average, not 300"; says "(150 per round"
plan 0 --epsilon 8 --sample-rate 0.1 --max-rounds-per-client 10; says_not "WARNING"
# publishing the number of participants removes the amplification from both epsilons
plan 0 --z 4 --sample-rate 0.1; says "AS keeps the number of participants secret"
others=$(echo "$out" | awk '/against others/ { print $4 }')
server=$(echo "$out" | awk '/against a server/ { print $5 }')
[ "$others" != "$server" ] || fail "no amplification: $out"
plan 0 --z 4 --sample-rate 0.1 --public-count; says_not "keeps the number of participants secret"
got=$(echo "$out" | awk '/epsilon against/ { printf "%s ", $3 == "a" ? $5 : $4 }')
[ "$got" = "$server $server " ] || fail "amplified with a published count: $out"
plan 0 --z 0.05 --noise cdp --pld; says "PLD"
plan 2 --z 0.04 --noise cdp --pld; says "at least 0.05"
# printed values are rounded to the safe side
for z in 0.7 1.3 2.9 11; do
    plan 0 --z $z --noise cdp --sample-rate 0.03 --pld --json; exact=$out
    plan 0 --z $z --noise cdp --sample-rate 0.03 --pld
    printf '%s\n%s\n' "$exact" "$out" | awk '
        NR == 1 { match($0, /"server":{"claimed":true,"epsilon":[0-9.e+-]*/)
                  e = substr($0, RSTART, RLENGTH); sub(/.*:/, "", e)
                  match($0, /"others_pld":{"lower":[0-9.e+-]*/)
                  l = substr($0, RSTART, RLENGTH); sub(/.*:/, "", l)
                  match($0, /"others_pld":{"lower":[0-9.e+-]*,"upper":[0-9.e+-]*/)
                  u = substr($0, RSTART, RLENGTH); sub(/.*:/, "", u) }
        /^epsilon against a server/ { seen++; if ($5 + 0 < e + 0) exit 1 }
        /PLD/ { seen++; if ($11 + 0 > l + 0 || $13 + 0 < u + 0) exit 1 }
        END { if (seen != 2) exit 1 }' || fail "rounded the wrong way at z $z: $exact $out"
done
plan 0 --z 0.2 --noise cdp; says "limited by the budget"
plan 0 --z 1 --noise cdp --pld; says "PLD"
plan 0 --epsilon 0.5 --classic; says "classic formula, as in the paper"

# the offending value is named, with exit 2
while read -r option value; do
    plan 2 --epsilon 8 "--$option" "$value"
    case $option=$value in
    sample-rate=0 | clip=0) says "--$option is 0: it must be above 0" ;;
    delta=0 | delta=1) says "--delta must be above 0 and below 1" ;;
    epsilon=0) says "either --epsilon" ;;
    *) says "--$option must be "; says "not \"$value\"" ;;
    esac
done <<LIST
sample-rate 1.5
sample-rate 0
sample-rate -0.1
sample-rate nan
sample-rate 0x1p-3
rounds 0x10
clip 1e-400
delta 0
delta 1
delta -1e-6
delta 1e400
epsilon -3
epsilon 0
epsilon inf
rounds 0
rounds 1.5
rounds many
clients 0
clients -5
dim 0
clip 0
clip -1
clip nan
noise gaussian
max-rounds-per-client 0
LIST
for value in -1 0 0.0005 nan inf 1e9 0x10 1x ""; do
    plan 2 --z "$value"
    case $value in
    0) says "either --epsilon" ;;
    0.0005) says "--z must be from 0.001 to 1000" ;;
    *) says "--z must be "; says "not \"$value\"" ;;
    esac
done
plan 2; says "either --epsilon"
plan 2 --epsilon 1 --z 1; says "either --epsilon"
plan 2 --epsilon 1 --pld; says "joint noise has no"
plan 2 --epsilon 1 --smple-rate 1; says "did you mean --sample-rate?"
expect 2 "$SEFL" privacy plan --clients 10 --rounds 5 --epsilon 1; says "plan requires --delta"

# records that take turns
records() { expect "$1" "$SEFL" privacy plan --clients 10 --rounds 140 --delta 1e-5 --epsilon 8 "$2" "$3" "$4" "$5" "$6" "$7"; }
records 0 --unit record --records 1000 --record-turns 10
says "noise multiplier z                 2.021263"; says "noise over signal                  2.75 "
says "each of a client's 1000 is used in at most 10 rounds"; says "privacy.records_max                72 "
says "z 7.562871, noise over signal 0.735, 14 times the training"
records 2 --unit record --records 1000 --record-turns 141; says "at most --rounds"
records 2 --unit client --record-turns 5 --dim 1000; says "need --unit record"
expect 2 "$SEFL" privacy plan --clients 10 --rounds 140 --delta 1e-5 --epsilon 8 --unit record --records 9 \
    --record-turns 5 --max-rounds-per-client 7
says "rounds.max_per_client must be 0"
expect 2 "$SEFL" privacy; says "plan, spent or new"
expect 2 "$SEFL" privacy paln; says "did you mean 'plan'?"

# correlated noise: turns, filter and z, beside independent noise and beside everybody in every round
turns() { expect "$1" "$SEFL" privacy plan --correlated --clients 10000 --rounds 100 --delta 1e-6 "$2" "$3" "$4" "$5"; }
turns 0 --epsilon 8 --max-rounds-per-client 1
says 'privacy.filter: "1744, 907, 561, 343"'; says "rounds.separation: 100"; says "3.5 times less noise in the last model"
says "everybody in every round"
expect 0 "$SEFL" privacy plan --correlated --clients 10000 --rounds 100 --delta 1e-6 --epsilon 8 \
    --separation 20 --momentum 0.9 --json
says '"filter":"3800"'; says '"separation":20'; says '"max_rounds_per_client":5'
expect 0 "$SEFL" privacy plan --correlated --clients 10000 --rounds 100 --delta 1e-6 --epsilon 8 --dim 44900
says "rounds.max_per_client: 1"
turns 2 --z 3 --max-rounds-per-client 1; says "--correlated needs --epsilon"
turns 2 --epsilon 8 --sample-rate 0.5; says "privacy.sampling must be all"
turns 1 --epsilon 8 --separation 101; says "some clients would never take part"
turns 1 --epsilon 0.01 --separation 10; says "the least that the accountant can show is 0.0"
expect 1 "$SEFL" privacy plan --correlated --clients 10 --rounds 100 --delta 1e-6 --epsilon 8 --max-rounds-per-client 3
says "10 clients with a separation of 34 are fewer than 2 in a round" # 33 would leave nobody for round 100
expect 2 "$SEFL" privacy plan --clients 10 --rounds 5 --delta 1e-6 --epsilon 8 --momentum 0.9
says "need --correlated"

ledger=$SEFL_SOURCE/tests/vectors/core/ledger/ledger-v4.bin
expect 0 "$SEFL" privacy spent "$ledger"
says 'population "people"'; says "5 rounds of 3 tasks"; says "z / S = 16 / 1.57 = 10.19"; says "against a server"
says "against others"; says "6bc61a0e205306ce"
expect 0 "$SEFL" privacy spent "$ledger" --json; says '"tasks":[{"task":"000102'
expect 0 "$SEFL" privacy spent "$ledger" --delta 1e-9; says "at delta 1e-09"
expect 2 "$SEFL" privacy spent "$ledger" --delta 2
says "--delta must be above 0 and below 1"
{ cat "$ledger"; printf '\003'; } > "$dir/unfinished"
expect 0 "$SEFL" privacy spent "$dir/unfinished"
says "ignored 1 bytes of an unfinished record"; says "for a client"
expect 2 "$SEFL" privacy spent; says "one ledger"
expect 1 "$SEFL" privacy spent /nonexistent; says "/nonexistent"
# one byte of a record changed
{ head -c 60 "$ledger"; printf 'X'; tail -c +62 "$ledger"; } > "$dir/changed"
expect 1 "$SEFL" privacy spent "$dir/changed"; says "was changed"
echo ok
