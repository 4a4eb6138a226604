#!/bin/sh
# The program's conventions: exit codes, help for every command, suggestions, JSON that parses.
set -eu
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"

expect 0 "$SEFL" version; says "commit"; says "cpu uses"; says "glibc"
expect 0 "$SEFL" --version; says "sefl 0."
expect 0 "$SEFL" version --json; says '"cpu_features":['
expect 2 "$SEFL" version --jsn; says "did you mean --json?"
expect 2 "$SEFL" version --json=1; says "takes no value"
expect 2 "$SEFL" version -x; says "unknown option -x"
expect 2 "$SEFL" version extra; says '"extra"'
expect 2 "$SEFL"; says "usage: sefl COMMAND"
expect 2 "$SEFL" vresion; says "did you mean 'version'?"
expect 2 "$SEFL" frobnicate; says "'sefl help' lists them"
expect 0 "$SEFL" help; says "commands:"
expect 0 "$SEFL" --help; says "commands:"
expect 2 "$SEFL" help nonsense; says "unknown command"
expect 2 "$SEFL" help bech; says "did you mean 'bench'?"
expect 2 "$SEFL" help bench version; says "\"version\""

# every command has help with an example, by `sefl help X` and `sefl X --help`
for c in $("$SEFL" help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    expect 0 "$SEFL" help "$c"; says "example:"; says "usage: sefl $c"
    first=$out
    expect 0 "$SEFL" "$c" --help
    [ "$first" = "$out" ] || fail "two different helps for $c"
done

expect 0 "$SEFL" help --man "$dir/man"
grep -q "^.SH COMMANDS" "$dir/man/sefl.1" || fail "no commands in sefl.1"
expect 0 "$SEFL-lab" help --man "$dir/man"
grep -q "^.SH NAME" "$dir/man/sefl-bench.1" || fail "no sefl-bench.1"
expect 1 "$SEFL" help --man "$dir/none/man"; says "none/man"
for c in train model data bench; do
    wide=$("$SEFL" help $c | sed '/^example:/,$d' | awk 'length > 80')
    [ -z "$wide" ] || fail "help of $c is wider than 80 columns: $wide"
done
if command -v man > /dev/null && command -v groff > /dev/null; then
    cat "$dir"/man/* | groff -man -Tascii -ww 2>&1 >/dev/null | grep . && fail "roff warnings"
fi
expect 0 "$SEFL" help --completion; says "complete -o default -F _sefl sefl"
if command -v bash > /dev/null; then
    "$SEFL" help --completion | bash -n || fail "completion is not bash"
    words=$(bash -c ". /dev/stdin; COMP_WORDS=(sefl vers); COMP_CWORD=1; _sefl; echo \${COMPREPLY[@]}" \
        << EOF
$("$SEFL" help --completion)
EOF
    )
    [ "$words" = version ] || fail "completion of 'vers' gives '$words'"
    words=$(bash -c ". /dev/stdin; COMP_WORDS=(sefl bench te); COMP_CWORD=2; _sefl; echo \${COMPREPLY[@]}" \
        << EOF
$("$SEFL" help --completion)
EOF
    )
    [ "$words" = text ] || fail "completion of 'bench te' gives '$words'"
    words=$(bash -c ". /dev/stdin; COMP_WORDS=(sefl bench train --vo); COMP_CWORD=3; _sefl; echo \${COMPREPLY[@]}" \
        << EOF
$("$SEFL" help --completion)
EOF
    )
    [ "$words" = --vocab ] || fail "completion of 'bench train --vo' gives '$words'"
    words=$(bash -c ". /dev/stdin; COMP_WORDS=(sefl version --j); COMP_CWORD=2; _sefl; echo \${COMPREPLY[@]}" \
        << EOF
$("$SEFL" help --completion)
EOF
    )
    [ "$words" = --json ] || fail "completion of 'version --j' gives '$words'"
fi

expect 0 "$SEFL" bench; says "text"
expect 2 "$SEFL" bench tetx; says "did you mean 'text'?"
expect 2 "$SEFL" bench text extra; says '"extra"'
[ -z "$("$SEFL" bench text --nope 2> /dev/null)" ] || fail "bench talks before it refuses an option"
expect 2 "$SEFL" bench text --threads 0; says "from 1 to 256"
expect 2 "$SEFL" bench text --seconds x; says "from 0 to 3600"
expect 2 "$SEFL" bench text --seconds 0; says "above 0"
expect 2 "$SEFL" bench --json text; says "name comes first"
expect 2 "$SEFL" bench train --vocab 9x; says "--vocab must be a whole number from 1 to"; says "'sefl bench train --help'"
expect 0 "$SEFL" bench train --help; says "usage: sefl bench train"; says "--vocab N"; says "(1 to 65536; default 20)"
expect 0 "$SEFL" bench --list; says "--vocab N"
expect 0 "$SEFL" bench text --json --seconds 0.01
printf '%s\n' "$out" | while IFS= read -r line; do
    for key in bench case value unit threads commit cpu; do
        case $line in "{"*"\"$key\":"*"}") ;; *) fail "no key $key in $line" ;; esac
    done
done
if command -v python3 > /dev/null; then
    printf '%s\n' "$out" | python3 -c 'import json,sys; [json.loads(l) for l in sys.stdin]' ||
        fail "bench --json is not JSON"
fi

# a full disk is an error, not silence
if [ -c /dev/full ]; then
    rc=0
    "$SEFL" version > /dev/full 2> /dev/null || rc=$?
    [ "$rc" -eq 1 ] || fail "writing to a full disk exits $rc"
fi

# fewer CPU features, same behaviour
expect 0 env SEFL_CPU=portable "$SEFL" version; says "nothing beyond plain C"
expect 0 env SEFL_CPU=aes,nonsense "$SEFL" version; says "\"nonsense\" is not an instruction set"
echo ok
