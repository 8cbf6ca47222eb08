# Every target sets itself up: it installs the Debian packages it needs, then does its work.
MAKEFLAGS += --no-print-directory
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
THREADED := base metrics http sched engine backend api
LAUNCHER := $(if $(shell command -v ccache),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache,-DHADAL_PCH=ON)
CONFIGURE = cmake --preset $(1) $(LAUNCHER) -Wno-dev >build/$(1).configure.log 2>&1 || { cat build/$(1).configure.log; exit 1; }
BUILD = cmake --build --preset $(1) -j $(JOBS) $(2)

.PHONY: help build test test-release test-asan test-tsan rebaseline lint format demo serve bench bench-peers soak install clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

build:  ## build/release/hadal
	@mkdir -p build && scripts/setup.sh build test
	@$(call CONFIGURE,release)
	@$(call BUILD,release)

demo:  ## build, fetch a real small model and ask it a question
	@mkdir -p build && scripts/setup.sh build demo
	@cmake --preset release $(LAUNCHER) -DHADAL_TESTS=OFF -B build/demo >build/demo.configure.log 2>&1 || { cat build/demo.configure.log; exit 1; }
	@cmake --build build/demo -j $(JOBS) --target hadal
	@scripts/demo.sh build/demo/hadal

serve:  ## build, fetch the small model and serve it on 127.0.0.1:8000, with a page
	@mkdir -p build && scripts/setup.sh build demo
	@cmake --preset release $(LAUNCHER) -DHADAL_TESTS=OFF -B build/demo >build/demo.configure.log 2>&1 || { cat build/demo.configure.log; exit 1; }
	@cmake --build build/demo -j $(JOBS) --target hadal
	@scripts/serve.sh build/demo/hadal

test: test-release test-asan  ## every test: release build, then the unit tests under ASan and UBSan

test-release: build
	@scripts/setup.sh test demo clients
	@scripts/fetch_smollm2.py >/dev/null || echo "test: the tests on SmolLM2 will be skipped"
	@scripts/test_venv.sh || echo "test: the tests with client packages and a browser will be skipped"
	@ctest --preset release -j $(JOBS)

test-asan:
	@mkdir -p build && scripts/setup.sh build test
	@$(call CONFIGURE,asan)
	@$(call BUILD,asan,--target unit_tests)
	@ctest --preset asan -j $(JOBS)

test-tsan:  ## the threaded parts under TSan
	@mkdir -p build && scripts/setup.sh build test
	@$(call CONFIGURE,tsan)
	@$(call BUILD,tsan,--target $(patsubst %,hadal_%_test,$(THREADED)))
	@for layer in $(THREADED); do ctest --preset tsan -j 1 -R "^$$layer\." -E '\.corpus\.' || exit 1; done

rebaseline:  ## write the numbers of the work and instruction guards anew (CONTRIBUTING.md)
	@mkdir -p build && scripts/setup.sh build test
	@$(call CONFIGURE,release)
	@$(call BUILD,release,--target hadal make_model)
	@$(call BUILD,release,--target rebaseline)

lint:  ## formatting, layers, sizes, clang-tidy
	@mkdir -p build && scripts/setup.sh build test lint
	@scripts/lint.sh

format:  ## clang-format everything
	@scripts/setup.sh lint
	@git ls-files -co --exclude-standard '*.h' '*.cc' '*.inc' | xargs clang-format-14 -i

bench:  ## microbenchmarks and `hadal bench` on random weights of a 1.5B shape
	@mkdir -p build && scripts/setup.sh build test bench
	@scripts/bench.sh

bench-peers: build  ## ours against PEER=folder... (builds of llama.cpp, ik_llama.cpp), side by side
	@scripts/bench_peers.sh $(PEER)

soak:  ## ten minutes per fuzz target, long invariance runs, TSan
	@mkdir -p build && scripts/setup.sh build test fuzz
	@scripts/soak.sh

install: build  ## to $(PREFIX)/bin
	@cmake --install build/release --prefix $(PREFIX)

clean:
	@rm -rf build
