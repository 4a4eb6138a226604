#!/bin/sh
# The library that `make install` gives other programs: it exports the names of cmake/sefl.symbols and no others; the
# example and the programs of docs/LIBRARY.md, built with pkg-config, are clients and servers of federations of real
# processes.
set -eu
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
build=$(dirname "$SEFL")
names=$SEFL_SOURCE/cmake/sefl.symbols

# the exported names: those of the list, which are those of the headers
cp "$names" "$dir/names"
[ "$SEFL_CORE_ONLY" = 0 ] || grep -v '^sefl_\(client\|aggregator\|csp\)_' "$names" > "$dir/names"
nm -D --defined-only "$build/libsefl.so" | awk '{ print $3 }' | sort > "$dir/shared"
cmp "$dir/names" "$dir/shared" || fail "libsefl.so: $(diff "$dir/names" "$dir/shared")"
nm -g --defined-only "$build/libsefl.a" | awk 'NF == 3 { print $3 }' | sort > "$dir/static"
cmp "$dir/names" "$dir/static" || fail "libsefl.a: $(diff "$dir/names" "$dir/static")"
cat "$SEFL_SOURCE"/include/sefl/*.h | sed -n 's/^SEFL_API .*[ *]\(sefl_[a-z_]*\)(.*/\1/p' | sort > "$dir/declared"
cmp "$names" "$dir/declared" || fail "the headers: $(diff "$names" "$dir/declared")"

# every header stands alone, in C and in C++
for h in "$SEFL_SOURCE"/include/sefl/*.h; do
    h=$(basename "$h")
    echo "#include <sefl/$h>" > "$dir/one.c"
    cc -std=c99 -Wall -Wextra -Werror -pedantic -fsyntax-only -I"$SEFL_SOURCE/include" "$dir/one.c" || fail "$h in C"
    ! command -v c++ > /dev/null ||
        c++ -x c++ -Wall -Wextra -Werror -fsyntax-only -I"$SEFL_SOURCE/include" "$dir/one.c" || fail "$h in C++"
done
[ "$SEFL_CORE_ONLY" = 0 ] || { echo ok; exit 0; }

# installed: pkg-config gives what a program needs, shared and static
cmake --install "$build" --prefix "$dir/root" > "$dir/install.out" 2>&1 || { cat "$dir/install.out"; fail "install"; }
PKG_CONFIG_PATH=$(dirname "$(find "$dir/root" -name sefl.pc)")
LD_LIBRARY_PATH=$(PKG_CONFIG_PATH=$PKG_CONFIG_PATH pkg-config --variable=libdir sefl)
export PKG_CONFIG_PATH LD_LIBRARY_PATH
compile() { # SOURCE PROGRAM [LIBRARIES]: with the libraries that pkg-config names, unless given
    libs=${3:-$(pkg-config --libs sefl)}
    # shellcheck disable=SC2046,SC2086 # several words
    cc -std=c99 -D_DEFAULT_SOURCE -Wall -Wextra -Werror -g ${SEFL_SANITIZE:+-fsanitize=$SEFL_SANITIZE} "$1" -o "$2" \
        $(pkg-config --cflags sefl) $libs -lpthread -lm || fail "$1 does not compile"
}
example=$SEFL_SOURCE/examples/06-client.c
[ "$(wc -l < "$example")" -le 60 ] || fail "the example has more than 60 lines"
compile "$example" "$dir/client"
compile "$SEFL_SOURCE/tests/e2e/library.c" "$dir/library"
compile "$SEFL_SOURCE/tests/e2e/library.c" "$dir/library-static" \
    "$(pkg-config --static --libs sefl | sed "s|-lsefl|$LD_LIBRARY_PATH/libsefl.a|")"
expect 2 "$dir/client"; says "usage:"
expect 1 "$dir/client" "$dir/none.yml"; says "none.yml"

# both servers and three clients in one process, and every misuse
"$SEFL" provision "$dir/one" --clients 3 --words 200 --set rounds.count=4 --set rounds.deadline_ms=$((3000 * t)) \
    --set privacy.noise=none --set privacy.claim=none > /dev/null 2>&1 || fail "provision"
cp -r "$dir/one" "$dir/two"
fed_start library "$dir/library" "$dir/one"
fed_start library-static env -u LD_LIBRARY_PATH "$dir/library-static" "$dir/two"
for name in library library-static; do fed_done $name 60; done

# the example, twice, beside one sefl client
fed_provision a --clients 3 --words 300 --set rounds.count=3
fed_servers --linger 2
at=$(cat "$fed/aggregator/at")
for i in 1 2; do
    fed_start "client-0$i" "$dir/client" "$fed/clients/client-0$i/client.yml" "server=$at"
done
fed_clients 3
fed_done aggregator 90
for i in 1 2 3; do fed_done "client-0$i" 30; done
for i in 1 2; do
    [ "$(grep -c '^round [123]: ' "$dir/log/client-0$i")" = 3 ] || fail "client-0$i did not take part in three rounds"
    grep -q "the task is over" "$dir/log/client-0$i" || fail "client-0$i did not learn the end"
done
grep -q '"clients":3' "$fed/aggregator/state/metrics.jsonl" || fail "not three clients in a sum"

# no leak and no other memory error under valgrind (which cannot run programs with a sanitizer)
if [ -z "${SEFL_SANITIZE:-}" ] && command -v valgrind > /dev/null; then
    rounds=5
    [ -z "${SEFL_SOAK:-}" ] || rounds=100
    fed_provision leaks --clients 2 --set model.body=external --set model.tensors=v=100 --set rounds.count=$rounds \
        --set rounds.deadline_ms=60000 --set privacy.noise=none --set privacy.claim=none
    fed_servers --linger 2
    at=$(cat "$fed/aggregator/at")
    fed_start leaks-1 "$dir/client" "$fed/clients/client-01/client.yml" "server=$at"
    fed_start leaks-2 valgrind -q --error-exitcode=9 --leak-check=full \
        --errors-for-leak-kinds=definite,indirect,possible "$dir/client" "$fed/clients/client-02/client.yml" "server=$at"
    for i in 1 2; do fed_done "leaks-$i" 180; done
    grep -q "^round $rounds: " "$dir/log/leaks-2" || fail "the client under valgrind took part in too few rounds"
    fed_done aggregator 30
fi

# docs/LIBRARY.md: every program compiles; plan.c prints what the page shows; the others are a federation
mkdir "$dir/tour"
awk -v dir="$dir/tour" '/^```c / { file = dir "/" $2; next } /^```output / { file = dir "/" $2 ".shown"; next }
    /^```/ { file = "" } file { print > file }' "$SEFL_SOURCE/docs/LIBRARY.md"
for source in "$dir"/tour/*.c; do
    if grep -q '^int main' "$source"; then
        compile "$source" "${source%.c}"
    else
        compile "$source" "${source%.c}.o" -c
    fi
done
"$dir/tour/plan" > "$dir/tour/plan.out"
cmp "$dir/tour/plan.out" "$dir/tour/plan.c.shown" || fail "plan.c prints $(cat "$dir/tour/plan.out")"
fed_provision toured --clients 2 --words 300 --set rounds.count=2
fed_start tour-csp "$dir/tour/server" csp "$fed/csp/csp.yml" listen=127.0.0.1:0
fed_until 20 "csp of the tour" test -s "$fed/csp/ready"
fed_start tour-as "$dir/tour/server" aggregator "$fed/aggregator/aggregator.yml" listen=127.0.0.1:0 linger=2 \
    "csp=$(cat "$fed/csp/ready")"
fed_until 20 "aggregator of the tour" test -s "$fed/aggregator/ready"
for i in 1 2; do
    fed_start "tour-$i" "$dir/tour/client" "$fed/clients/client-0$i/client.yml" "server=$(cat "$fed/aggregator/ready")"
done
for i in 1 2 as csp; do fed_done "tour-$i" 60; done
grep -q "^round 2 of 2: 2 clients" "$dir/log/tour-as" || fail "the server of the tour tells no rounds"
grep -q "^over: " "$dir/log/tour-1" || fail "the client of the tour did not learn the end"

# a secure sum without machine learning: every client reads the average
fed_provision sum --clients 3 --set model.body=external --set model.tensors=sum=4 --set rounds.count=2 \
    --set privacy.noise=none --set privacy.claim=none
fed_servers --linger 2
at=$(cat "$fed/aggregator/at")
fed_start sum-1 "$dir/tour/average" "$fed/clients/client-01/client.yml" "server=$at" 1 2 -3 0.5
fed_start sum-2 "$dir/tour/average" "$fed/clients/client-02/client.yml" "server=$at" 2 2 0 0
fed_start sum-3 "$dir/tour/average" "$fed/clients/client-03/client.yml" "server=$at" 0 2 0 1
for i in 1 2 3; do
    fed_done "sum-$i" 60
    [ "$(tr '\n' ' ' < "$dir/log/sum-$i")" = "1.00 2.00 -1.00 0.50 " ] || fail "the average: $(cat "$dir/log/sum-$i")"
done
fed_kill TERM aggregator csp
echo ok
