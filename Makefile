# SEFL's entry point. CMake builds the program (CMakePresets.json); this file has the common targets.
# JOBS=n sets the number of parallel jobs, PREFIX=dir where `make install` puts files.
JOBS    ?= $(shell nproc)
PREFIX  ?= /usr/local
DESTDIR ?=

.DEFAULT_GOAL := release
.PHONY: release test test-torch test-browser demo bench check-plan prove asan tsan clang core client-size client-cost ctime \
        fuzz soak format format-check lint install deb test-packages containers arm64 clean help bootstrap

## release   build the program: build/sefl (the default)
release:
	@scripts/bootstrap --check
	@scripts/build release $(JOBS)
	@ln -sfn release/sefl build/sefl
	@echo "built build/sefl"

## test      install what is missing, build, run every test
test:
	@scripts/bootstrap --test
	@scripts/build dev $(JOBS)
	@scripts/run-tests dev $(JOBS)

## test-torch  install Debian's python3-torch (0.6 GB), test sefl.torch and federate with it
test-torch:
	@scripts/bootstrap --torch
	@scripts/build dev $(JOBS)
	@SEFL=$(CURDIR)/build/dev/sefl SEFL_SOURCE=$(CURDIR) SEFL_CORE_ONLY=0 tests/e2e/torch.sh

## test-browser  install Chromium and node, test the web page in it; pictures in build/dev/browser
test-browser:
	@scripts/bootstrap browser
	@scripts/build dev $(JOBS)
	@SEFL=$(CURDIR)/build/dev/sefl tests/browser/run build/dev/browser

## demo      install what is missing, build, show the system at work
demo: bootstrap release
	@build/sefl demo

## bench     measure this machine: every benchmark, beside its floor where there is one
bench: release
	@for b in $$(build/sefl bench --list | awk '/^[a-z0-9]/ { print $$1 }'); do \
	    build/sefl bench $$b || exit 1; done

## check-plan  compare the predictions of `sefl plan` with measured runs
check-plan: release
	@scripts/check-plan build/release/sefl

## prove     search the models of the protocol (proofs/), and see that they find old faults (PROVE='--short' narrows it)
prove:
	@scripts/bootstrap --dev
	@proofs/prove $(PROVE)

## asan      the tests under AddressSanitizer and UndefinedBehaviorSanitizer
## tsan      the tests under ThreadSanitizer
## clang     the tests, built with clang (TESTS='-LE e2e' chooses among them, as ctest does)
asan tsan clang:
	@scripts/bootstrap --dev
	@scripts/build $@ $(JOBS)
	@scripts/run-tests $@ $(JOBS) $(TESTS)

## core      the core build, with the headers of all other libraries hidden, and its tests
core: bootstrap
	@scripts/check-core $(JOBS)

## client-size  build the small client library; print its size and a client's peak memory
client-size: bootstrap
	@scripts/client-size $(JOBS)

## client-cost  compare what clients in C, Python and of the program cost outside training (VALUES=945510)
client-cost: release
	@scripts/client-cost $(VALUES)

## ctime     constant-time checks under valgrind (COMPILERS, LEVELS narrow them)
ctime:
	@scripts/bootstrap --dev
	@scripts/ctime $(JOBS)

## fuzz      every fuzz harness under libFuzzer (SECONDS_EACH=60)
fuzz:
	@scripts/bootstrap --dev
	@scripts/build fuzz $(JOBS)
	@FUZZ_JOBS=$${FUZZ_JOBS:-$(JOBS)} scripts/fuzz build/fuzz

## soak      the long tests in full: hours, not minutes (RUNS_EACH=10000000 for each fuzz harness)
soak:
	@scripts/bootstrap --dev
	@scripts/build dev $(JOBS)
	@SEFL_SOAK=1 scripts/run-tests dev $(JOBS)
	@scripts/build asan $(JOBS)
	@SEFL_SOAK=1 scripts/run-tests asan 1 -R e2e.hostile
	@scripts/build tsan $(JOBS)
	@scripts/run-tests tsan 1 -R e2e.library
	@scripts/ctime $(JOBS)
	@scripts/build fuzz $(JOBS)
	@FUZZ_JOBS=$${FUZZ_JOBS:-$(JOBS)} RUNS_EACH=$${RUNS_EACH:-10000000} scripts/fuzz build/fuzz
	@$(MAKE) test-packages containers arm64

## format    format all C sources
format:
	@scripts/bootstrap --dev
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format -i

format-check:
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format --dry-run -Werror

## lint      static checks: lengths, cppcheck, clang-tidy, shellcheck
lint:
	@scripts/bootstrap --dev
	@scripts/build dev $(JOBS)
	@scripts/lint dev

## install   program, headers, libraries, pkg-config, man pages, completion, units (PREFIX, DESTDIR)
install: release
	@cmake "-DCMAKE_INSTALL_PREFIX=$(PREFIX)" build/release > /dev/null
	@cmake --build build/release > /dev/null
	@DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)"

## deb       the Debian packages, in build/deb; checks them with lintian and prints their sizes
deb:
	@scripts/bootstrap packages
	@scripts/deb $(JOBS)

## test-packages  install the Debian packages in a clean root (debootstrap) and use them there (as root)
test-packages: deb
	@scripts/test-packages

## containers  an image for each role, built with buildah from the Debian packages (as root)
containers: deb
	@scripts/bootstrap containers
	@scripts/containers

## arm64     cross build for arm64, its unit tests under qemu-user (TESTS='-L property' chooses others)
arm64:
	@scripts/bootstrap arm64
	@scripts/arm64 $(JOBS) $(TESTS)

## clean     remove everything that was built
clean:
	@rm -rf build

## bootstrap install missing Debian packages (root or sudo)
bootstrap:
	@scripts/bootstrap

## help      this list
help:
	@sed -n 's/^## /  make /p' Makefile
