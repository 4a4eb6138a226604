#!/bin/sh
# The commands in README and docs work. The test runs every block marked ```sh, in the order of its file, in one folder
# per file (test_operating.sh runs docs/OPERATING.md). A block "```sh parallel" has one command per line; the test runs
# them side by side, as in several terminals. In other blocks it also runs every line "$ sefl ..." or
# "$ build/sefl ...", which must print the lines below it; it does not run "$ make ..." and the failing command in
# CONTRIBUTING.md. Every `sefl COMMAND --option` that a document names exists.
#
# `sefl` is a wrapper here, so that tests can run side by side and end soon: provisioned federations get their own
# ports, and the aggregator does not linger.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
mkdir "$dir/bin"
cat > "$dir/bin/sefl" << END
#!/bin/sh
case \$1 in
provision) exec "$SEFL" "\$@" --port-base $((20000 + $$ % 12000)) ;;
aggregator) exec "$SEFL" "\$@" --linger 3 ;;
*) exec "$SEFL" "\$@" ;;
esac
END
chmod +x "$dir/bin/sefl"
PATH=$dir/bin:$PATH
export PATH

# FILE: writes its blocks to numbered scripts
blocks() {
    awk -v out="$dir/block" '
        /^```/ {
            if (inside) { inside = 0; close(file) }
            else if ($1 == "```sh") {
                file = sprintf("%s-%02d%s.sh", out, ++n, $2 == "parallel" ? "-parallel" : "")
                inside = 1
                printf "" > file
            } else inside = 2
            next
        }
        inside == 1 { print > file }
        inside == 2 && /^\$ (build\/)?sefl / {
            shown = sprintf("%s-%02d", out, ++n)
            sub(/^\$ (build\/)?/, "")
            print > (shown ".sh")
            close(shown ".sh")
            next
        }
        inside == 2 && /^\$ / && !/^\$ (make|echo) / { print FILENAME ": nobody runs: " $0 > (out "-bad") }
        inside == 2 && shown { print > (shown ".shown") }
        !inside { shown = "" }' "$1"
}
ran=0
for file in "$SEFL_SOURCE"/README.md "$SEFL_SOURCE"/CONTRIBUTING.md "$SEFL_SOURCE"/docs/*.md \
    "$SEFL_SOURCE"/examples/README.md; do
    case $file in */OPERATING.md) continue ;; esac # test_operating.sh runs it as one session
    rm -rf "$dir"/block-* "$dir/work"
    mkdir "$dir/work"
    blocks "$file"
    [ ! -e "$dir/block-bad" ] || fail "$(cat "$dir/block-bad")"
    for block in "$dir"/block-*.sh; do
        [ -e "$block" ] || continue
        rc=0
        : > "$dir/out"
        case $block in
        *-parallel.sh)
            pids=
            while IFS= read -r line; do
                (cd "$dir/work" && exec sh -euc "exec $line") >> "$dir/out" 2>&1 &
                pids="$pids $!"
            done < "$block"
            for p in $pids; do wait "$p" || rc=$?; done
            ;;
        *) (cd "$dir/work" && sh -eu "$block") > "$dir/out" 2>&1 || rc=$? ;;
        esac
        [ "$rc" -eq 0 ] || { cat "$block" "$dir/out"; fail "$file: a block exits $rc"; }
        shown=${block%.sh}.shown
        [ ! -e "$shown" ] || diff "$shown" "$dir/out" || fail "$file: '$(cat "$block")' prints something else"
        ran=$((ran + 1))
    done
done
grep -q OPERATING.md "$SEFL_SOURCE/tests/e2e/test_operating.sh" || fail "nobody runs OPERATING.md"
[ $ran -ge 5 ] || fail "only $ran blocks were run"

# ---- names exist ------------------------------------------------------------------------
commands=$("$SEFL" help | sed -n 's/^  \([a-z]*\) .*/\1/p')
cd "$SEFL_SOURCE"
grep -ho '`sefl [a-z][a-z0-9]*\( [a-z][a-z0-9]*\)\?' README.md CONTRIBUTING.md CHANGELOG.md docs/*.md examples/README.md |
    sort -u | while read -r _ command action; do
    echo "$commands" | grep -qx -- "$command" || fail "a text names 'sefl $command'"
    [ -z "$action" ] || "$SEFL" help "$command" | grep -qw -- "$action" ||
        "$SEFL" bench --list 2> /dev/null | grep -qw -- "$action" || fail "a text names 'sefl $command $action'"
done
# shellcheck disable=SC2016 # backquotes of the texts
# options in code of one line; `sefl bench --list` has those of a benchmark
grep -hoE '`(build/)?sefl [^`]*`' README.md CONTRIBUTING.md SECURITY.md docs/*.md examples/README.md |
    grep -- ' --' | tr -d '`' | sort -u | while read -r _ command rest; do
    { "$SEFL" help "$command"; [ "$command" != bench ] || "$SEFL" bench --list; } > "$dir/help"
    for o in $(echo "$rest" | grep -o -- '--[a-z][a-z0-9-]*'); do
        [ "$o" = --help ] || grep -qw -e "$o" "$dir/help" || fail "a text names 'sefl $command $o'"
    done
done
# settings: `GROUP.NAME` of a group that some settings file has (crypto.key exists in the task only)
for kind in experiment aggregator csp client policy task; do "$SEFL" config keys --for $kind --json; done |
    grep -o '"key":"[^"]*"' | cut -d '"' -f 4 > "$dir/keys"
"$SEFL" train --help | sed -n '/^settings/,/^$/s/^  \([a-z_.]*\) .*/\1/p' >> "$dir/keys"
[ "$(grep -c . "$dir/keys")" -ge 100 ] || fail "the settings were not found"
# shellcheck disable=SC2016
grep -hoE '`[a-z]+\.[a-z_0-9]+`' README.md docs/*.md | tr -d '`' | sort -u | grep -vx -e 'crypto\.key' |
    grep -vE '\.(c|h|key|pem|pub|txt|yml|json|db|safetensors)$' | while read -r key; do
    ! grep -q "^${key%%.*}\." "$dir/keys" || grep -qx -- "$key" "$dir/keys" || fail "a text names the setting $key"
done
echo "ok: $ran blocks"
