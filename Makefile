# SPDX-License-Identifier: MIT
# Thin: meson knows how to build, the scripts know how to run. `make help` lists what there is.
BUILD ?= build
MESON_FLAGS ?=

.PHONY: all run check bench crash dirty asan tsan install clean help

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@scripts/install-deps build
	meson setup $(BUILD) $(MESON_FLAGS)

run: all
	@BUILD=$(BUILD) scripts/demo

check:
	@scripts/check

bench: all
	@BUILD=$(BUILD) scripts/bench

SECONDS ?= 60
SEED ?= 1
crash: all
	@BUILD=$(BUILD) tests/crash/run --seconds $(SECONDS) --seed $(SEED)

IMAGES ?= 200
dirty: all
	@BUILD=$(BUILD) tests/dirty/run --images $(IMAGES) --seed $(SEED)

asan tsan:
	@scripts/install-deps check
	@scripts/setup-build build-$@
	ninja -C build-$@

install: all
	meson install -C $(BUILD) --no-rebuild

clean:
	rm -rf build build-gcc build-clang build-asan build-tsan

help:
	@echo 'make          build into $(BUILD)/, installing missing Debian packages first if it may'
	@echo 'make run      the demo'
	@echo 'make check    every test that belongs to CI; needs about 13 minutes on two processors'
	@echo 'make bench    the measurements; writes $(BUILD)/bench/report.html'
	@echo 'make crash    explores crash states for SECONDS=60 from SEED=1 on'
	@echo 'make dirty    IMAGES=200 that the kernel left in the middle of its work, from SEED=1 on; as root'
	@echo 'make asan     a build with AddressSanitizer and UBSan in build-asan/'
	@echo 'make tsan     a build with ThreadSanitizer in build-tsan/'
	@echo 'make install  DESTDIR is honoured'
	@echo 'make clean    remove the build folders'
