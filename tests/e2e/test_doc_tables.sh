#!/bin/sh
# The tables of docs/PROTOCOL.md agree with the headers: members of a task, release modes, kinds and refusals of the
# link, reasons for refusing a head, kinds of signatures, HTTP calls. The files and tests that the documents name
# exist.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
cd "$SEFL_SOURCE"
doc=docs/PROTOCOL.md
section() { awk -v from="$1" '/^## / { on = 0 } index($0, from) == 1 { on = 1 } on' "$doc"; } # '## TITLE': its text
same() { diff -u "$dir/code" "$dir/doc" || fail "$1 differ between $2 and $doc"; }

# members of a task, in their order; "`a.b`, `.c`" names a.b and a.c
roots=$(printf ' -I%s' "$(dirname "$SEFL")"/roots/*)
# shellcheck disable=SC2086 # options
printf '#include "protocol/task_fields.h"\nTASK_FIELDS(M, M, O)\n' | "${CC:-cc}" -E -P -xc $roots -Iinclude - |
    sed 's/" "//g' | grep -oE '\bM\("[a-z0-9_.]+"' | cut -d'"' -f2 > "$dir/code"
[ -s "$dir/code" ] || fail "no members of a task were found"
section '## The task' | awk -F'|' '/^\| `/ {
        n = split($2, part, ",")
        for (i = 1; i <= n; i++) {
            name = part[i]; gsub(/[` ]/, "", name)
            if (name ~ /^\./) name = group name
            group = name; sub(/\..*/, "", group)
            print name
        } }' > "$dir/doc"
same "members of a task" task_fields.h

# names of the release modes
sed -n '/define RELEASE_MODES/,/^$/s/^    M([A-Z]*, \([a-z]*\),.*/\1/p' src/core/protocol/modes/names.h > "$dir/code"
[ "$(wc -l < "$dir/code")" -ge 3 ] || fail "the release modes were not found"
# shellcheck disable=SC2016
section '## The task' | awk -F'|' '/^\| `privacy.noise`/ { print $5 }' | grep -oE '[a-z]+' > "$dir/doc"
same "release modes" mode.h
# each mode with noise has a row that says what each server may do, and the premise that only a document can keep
while read -r mode; do
    [ "$mode" != none ] || continue
    for text in docs/PRIVACY.md docs/THREATS.md; do
        grep -qF "| \`$mode\`, \`pad\` |" "$text" || fail "$text does not say against whom $mode protects under pad"
    done
done < "$dir/code"
for text in docs/PROTOCOL.md docs/PRIVACY.md docs/OPERATING.md; do
    tr '\n' ' ' < "$text" | grep -qE "AS's state( is)? never( being)? an old copy" ||
        fail "$text does not state that AS's state must never be an old copy"
done

# kinds of the link and their numbers
sed -n '/define LINK_KIND_LIST/,/^$/p' src/core/protocol/link.h | grep -oE '\bX\([A-Z]+\)' | sed 's/X(\(.*\))/\1/' | awk '{ print NR - 1, $1 }' |
    sort > "$dir/code"
[ "$(wc -l < "$dir/code")" -ge 18 ] || fail "the kinds of the link were not found"
section '## The link between' | awk -F'|' '$2 ~ /^ [0-9]+ $/ && $3 ~ /^ [A-Z]+ $/ { print $2 + 0, $3 }' |
    tr -s ' ' | sed 's/ $//' | sort -u > "$dir/doc"
same "kinds of the link" link.h

# every message, and every field of a head, header and statement, has a row in THREATS.md: what covers it from CSP
gets() { awk '/^## / { on = 0 } /^## What CSP gets/ { on = 1 } on && /^\|/' docs/THREATS.md; }
gets | awk -F'|' '{ print $2 }' | grep -oE '[A-Z]{2,}' | sort -u > "$dir/doc"
awk '{ print $2 }' "$dir/code" | sort > "$dir/kinds"
diff -u "$dir/kinds" "$dir/doc" || fail "the messages in THREATS.md, What CSP gets, are not those of link.h"
for list in 'head.h HEAD_FIELDS' 'round.h ROUND_HEADER_FIELDS' 'round.h ROUND_STATEMENT_FIELDS'; do
    sed -n "/define ${list#* }(/,/[^\\\\]\$/p" "src/core/protocol/${list% *}" | grep -oE 'X\([a-z0-9]+, [a-z_0-9]+\)|X\([a-z_]+, [0-9A-Z]' |
        sed -E 's/X\((u16|u32|u64|hash), ([a-z_0-9]+)\)/\2/; s/X\(([a-z_]+), .*/\1/' > "$dir/fields"
    [ "$(wc -l < "$dir/fields")" -ge 4 ] || fail "the fields of $list were not found"
    while read -r field; do
        gets | awk -F'|' '{ print $3 }' | grep -qwE "$field" || fail "THREATS.md, What CSP gets, does not mention $field of $list"
    done < "$dir/fields"
done

# refusals of CSP, and reasons for refusing a head
sed -n '/define LINK_NO_LIST/,/^$/s/^    X(\([A-Z]*\), \([0-9]*\),.*/\2 \1/p' src/core/protocol/link.h | sort > "$dir/code"
section '## The link between' | awk -F'|' '/^\| [A-Z]+ .*\| [0-9]+ \|/ {
        for (i = 2; i < NF; i += 2) { split($i, w, " "); if (w[1] ~ /^[A-Z]+$/) print $(i + 1) + 0, w[1] } }' |
    sort > "$dir/doc"
same "refusals of the link" link.h
sed -n '/define HEAD_REASON_LIST/,/^$/s/^    X(\([A-Z]*\), \([0-9]*\),.*/\2 \1/p' src/core/protocol/link.h | sort > "$dir/code"
section '## Sealed seeds' | grep -o '| [1-9] [A-Z]* |' | tr -d '|' | awk '{ print $1, $2 }' | sort > "$dir/doc"
same "reasons against a head" link.h

# kinds of signatures
sed -n 's/^    SIGN_[A-Z]* = \([0-9]*\), *\/\* "\([a-z ]*\)".*/\1 \2/p' src/core/crypto/sign.h | sort > "$dir/code"
section '## Signed documents' | awk -F'|' '/^\| [0-9]/ {
        for (i = 2; i < NF; i++) if ($i ~ /^ [0-9]+ $/) { n = $i + 0; name = $(i + 1); gsub(/^ | $/, "", name); print n, name } }' |
    sort > "$dir/doc"
same "kinds of signatures" sign.h

# HTTP calls
# a path is a literal or a macro of http.h
awk -F'"' '/^#define HTTP_[A-Z]*_PATH/ { split($1, w, " "); path[w[2]] = $2 }
    /define HTTP_CALLS/ { on = 1 }
    /^$/ { on = 0 }
    on && /^    X\(/ {
        name = $3; gsub(/[, ]/, "", name)
        print $2, (name == "" ? $4 : path[name])
    }' src/core/protocol/http.h | sort > "$dir/code"
# shellcheck disable=SC2016 # backquotes of the texts
section '## AS over HTTPS' | sed -n '/^| request/,/^$/p' | grep -o '`[A-Z]* /[^`?]*' | tr -d '\140' | sort -u > "$dir/doc"
same "calls" http.h

# every key of every settings file
"$SEFL" config table > "$dir/code"
diff -u docs/SETTINGS.md "$dir/code" || fail "docs/SETTINGS.md is old: 'sefl config table > docs/SETTINGS.md'"

# a setting that train, tasks and experiments share has one description; defaults may differ, and `name` is their own.
# train's are in its help, where words are wrapped, and values and default follow in brackets
"$SEFL" train --help | awk '/^  [a-z]/ { print line; line = "" } { $1 = $1; line = line " " $0 } END { print line }
    /^settings for/ { line = ""; print "## train" }' | sed -n '/^## train/,$s/^ *//p' > "$dir/train"
awk -F' [|] ' 'FNR == NR { key = $0; sub(/ .*/, "", key); sub(/^[^ ]* /, ""); train["| `" key "`"] = tolower(substr($0, 1, 1)) substr($0, 2); next }
    /^## / { on = /task|experiment/ }
    on && /^[|] `/ && !/^[|] `name`/ {
        what = $4; sub(/ [|]$/, "", what)
        if ($1 in meaning || $1 in train) n++
        if ($1 in train) trains++
        if ($1 in meaning && meaning[$1] != what) { print $1, what, meaning[$1]; bad = 1 }
        if ($1 in train && index(train[$1], what) != 1) { print $1, what, train[$1]; bad = 1 }
        meaning[$1] = what
    }
    END { exit bad || n < 80 || trains < 40 }' "$dir/train" "$dir/code" || fail "a shared setting has two descriptions"

# metrics of both servers
scripts/metrics-table > "$dir/code"
[ "$(wc -l < "$dir/code")" -ge 40 ] || fail "the metrics were not found"
sed -n '/^| name | type/,/^$/{ /^$/d; p; }' docs/OPERATING.md | diff -u - "$dir/code" ||
    fail "the table of docs/OPERATING.md is old: scripts/metrics-table prints it"

# files that the documents name exist: by path, or by the end of a path
git ls-files > "$dir/files" 2> /dev/null || find . -type f > "$dir/files"
# shellcheck disable=SC2016
grep -ohE '`[a-z0-9_/]+\.[ch]`' README.md docs/*.md | tr -d '\140' | sort -u > "$dir/doc"
[ "$(wc -l < "$dir/doc")" -ge 50 ] || fail "the names of files were not found"
while read -r file; do
    grep -qE "(^|/)$file\$" "$dir/files" || fail "a text names $file"
done < "$dir/doc"

# files and folders that the table "Where do I change" names exist; NAME stands for a new one's name
# shellcheck disable=SC2016
sed -n '/^## Where do I change/,$p' docs/ARCHITECTURE.md | grep -oE '`[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+/?`' | tr -d '\140' |
    grep -v -e NAME -e 'N\.M' | sort -u > "$dir/doc"
[ "$(wc -l < "$dir/doc")" -ge 100 ] || fail "the table's files were not found"
while read -r file; do
    [ -e "$file" ] || grep -qE "/$file\$" "$dir/files" || fail "the table names $file"
done < "$dir/doc"

# functions and types that ARCHITECTURE.md names exist
# shellcheck disable=SC2016
grep -ohE '`[a-z][a-z0-9]*(_[a-z0-9]+)+`' docs/ARCHITECTURE.md | tr -d '\140' | sort -u > "$dir/doc"
[ "$(wc -l < "$dir/doc")" -ge 20 ] || fail "the names of functions were not found"
while read -r name; do
    grep -rqw --include='*.[ch]' --include='*.txt' -- "$name" src include CMakeLists.txt || fail "ARCHITECTURE.md names $name"
done < "$dir/doc"

# links between the documents lead to files
for text in README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md docs/*.md examples/README.md; do
    grep -oE '\]\([^)# ]+' "$text" | sed 's/^](//' | grep -v ^http | while read -r target; do
        [ -e "$(dirname "$text")/$target" ] || fail "$text links to $target"
    done
done

# tests that the documents name: unit.LAYER.NAME, property.LAYER.NAME, e2e.NAME
# shellcheck disable=SC2016
grep -ohE '`(unit|property|vectors|e2e)\.[a-z0-9_.]+`' README.md CONTRIBUTING.md docs/*.md | tr -d '\140' | sort -u > "$dir/doc"
while IFS=. read -r kind layer name; do
    case $kind in e2e) file=tests/e2e/test_$layer.sh ;; *) file=$(dirname "$SEFL")/tests/$kind.$layer.$name ;; esac
    [ -e "$file" ] || fail "a text names the test $kind.$layer${name:+.$name}"
done < "$dir/doc"
# log lines and answers that the handbooks quote are in the source: two or more words in backquotes that are not a
# command
# shellcheck disable=SC2016
cat docs/OPERATING.md docs/RUNNING.md docs/THREATS.md | awk '/^```/ { on = !on; next } !on' | tr '\n' ' ' |
    grep -oE '`[a-z]+( [a-zA-Z,-]+)+`' | tr -d '\140' | sort -u |
    grep -vE '^(sefl|sudo|ca|task|systemd-[a-z]*|enroll|revoke|shred|du|ulimit|make) ' > "$dir/doc"
[ "$(wc -l < "$dir/doc")" -ge 15 ] || fail "the quoted log lines were not found"
while read -r line; do
    grep -rqF -- "$line" src || fail "no file of src has the line \"$line\" that a document quotes"
done < "$dir/doc"
echo "ok"
