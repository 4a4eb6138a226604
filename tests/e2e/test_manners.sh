#!/bin/sh
# Checks every command in the program's own list: wrong usage exits with 2, a message and a pointer to the help; help
# has options and an example; man page and completion have every command, action and option; only results go to
# standard output, and control characters only to a terminal.
set -eu
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
cd "$dir"

misuse() { # ARGUMENTS...: must be refused
    rc=0
    "$SEFL" "$@" > out 2> err < /dev/null || rc=$?
    [ "$rc" -eq 2 ] || fail "'sefl $*' exits $rc: $(cat out err)"
    [ ! -s out ] || fail "'sefl $*' refuses on standard output: $(cat out)"
    grep -q "^sefl" err || fail "'sefl $*' says nothing useful: $(cat err)"
    if grep -q "$(printf '\033')" err; then fail "'sefl $*' sends control characters"; fi
}
narrow() { # WHAT FILE: no line is wider than 80 columns
    wide=$(awk 'length > 80' "$2")
    [ -z "$wide" ] || fail "$1 has lines of more than 80 columns: $wide"
}
described() { # INDENT COMMAND...: has a help with an example, and its options are in the man page and the completion
    indent=$1
    shift
    for word; do :; done # the last one
    "$SEFL" "$@" --help > help 2> err
    [ ! -s err ] || fail "sefl $* --help talks: $(cat err)"
    grep -q '^example:' help || fail "sefl $* --help has no example"
    sed -n '/^example:/,$p' help | grep -q "sefl $*" || fail "the example of $* is another command"
    page=man/sefl-$1.1
    grep -q "^\.SS sefl $*\$" "$page" || fail "the man page lacks $*"
    line=$(sed -n "s/^$indent$word) //p" completion)
    [ -n "$line" ] || fail "the completion lacks $*"
    sed '/^example:/,$d' help | grep -o -- '\(^\|[ (\[]\)--[a-z][a-z0-9-]*' | grep -o -- '--[a-z0-9-]*' | sort -u > options || :
    while read -r o; do
        case $line in *"$o"*) ;; *) fail "the completion of $* lacks $o" ;; esac
        grep -qF -- "$(printf %s "$o" | sed 's/-/\\-/g')" "$page" || fail "the man page lacks $o of $*"
        asked=$((asked + 1))
    done < options
    narrow "sefl $* --help" help
}
asked=0
commands=$("$SEFL" help | sed -n 's/^  \([a-z]*\) .*/\1/p')
"$SEFL" help --man man
"$SEFL-lab" help --man man
"$SEFL" help --completion > completion
[ "$(echo "$commands" | wc -l)" -ge 8 ] || fail "the list of commands: $commands"
for c in $commands; do
    described '    ' "$c"
    misuse "$c" --no-such-option
    if [ "$c" != help ]; then grep -q "sefl $c" err || fail "sefl $c --no-such-option: $(cat err)"; fi
    for a in $(printf %s "$line" | sed -n "s/.* actions='\([^']*\)'.*/\1/p"); do
        grep -qw -- "$a" help || [ "$c" = bench ] || fail "help of $c lacks the action $a"
        misuse "$c" "$a" --no-such-option
    done
done
[ "$asked" -gt 50 ] || fail "only $asked options were looked for"
"$SEFL" help > list
narrow "sefl help" list
"$SEFL" bench --list > list
narrow "sefl bench --list" list
for b in $("$SEFL" bench --list | awk '/^[a-z0-9]/ { print $1 }'); do
    described '        ' bench "$b"
    grep -q -- --seconds help || fail "sefl bench $b --help lacks --seconds"
    misuse bench "$b" --threads 2x
    misuse bench "$b" stray
done
for page in man/*; do
    if ! MANWIDTH=80 man -l "$page" 2> err > shown || ! grep -q NAME shown; then break; fi # man is not installed
    [ ! -s err ] || fail "man -l: $(cat err)"
    narrow "$page" shown
done
# every kind of settings file has a page with all of its keys
[ "$SEFL_CORE_ONLY" != 0 ] || for kind in experiment aggregator csp client policy task; do
    for key in $("$SEFL" config keys --for $kind | awk '{ print $1 }'); do
        grep -qF ".B $(printf %s "$key" | sed 's/-/\\-/g')" "man/sefl-$kind.yml.5" || fail "sefl-$kind.yml.5 lacks $key"
    done
done
# commands that require arguments
misuse report
misuse report --text --out x y
misuse train stray
misuse model
misuse model eval
misuse model frobnicate
misuse data
misuse data split
misuse privacy
misuse privacy plan
misuse privacy spent
misuse bench nothing
misuse bench --list text
misuse bench --list --json
misuse bench --json text
misuse bench train --clients 8x
misuse bench train --model gru
misuse help a b
if [ "$SEFL_CORE_ONLY" = 0 ]; then
    for c in aggregator csp client; do misuse $c; done
    misuse key
    misuse key new
    misuse task
    misuse task show
    misuse provision
    misuse provision a b
    misuse simulate
    misuse plan
    misuse compare
    misuse paper
    misuse demo stray
    misuse config
    misuse config check
    misuse doctor stray
    misuse init a b
    rc=0
    "$SEFL" report nowhere > out 2> err || rc=$?
    [ "$rc" -eq 1 ] || fail "a run that is not there: $rc"
fi
# ---- terminals ----------------------------------------------------------------------------------- the progress line
# stays one line on a narrow terminal, and is absent without a terminal
if [ "$SEFL_CORE_ONLY" = 0 ] && script -qec true /dev/null > /dev/null 2>&1; then
    printf 'clients: 4\nrounds: { count: 3 }\n' > e.yml
    run="'$SEFL' simulate -c e.yml"
    TERM=xterm script -qec "stty cols 40; $run --set name=narrow" /dev/null > screen
    tr '\r' '\n' < screen | grep "$(printf '\033')" | sed "s/$(printf '\033')\[K//g" | grep -v '^$' > lines || :
    grep -q '^round .*client' lines || fail "no progress on a terminal: $(cat screen)"
    if grep '^round .*client [0-9]' lines | awk 'length > 39' | grep -q .; then fail "too wide: $(cat lines)"; fi
    for term in dumb ""; do
        TERM=$term script -qec "$run --set name=t$term" /dev/null > screen
        grep -q 'all rounds are done' screen || fail "TERM='$term': $(cat screen)"
        if grep -q "$(printf '\033')" screen; then fail "TERM='$term' gets control characters"; fi
    done
fi
echo ok
