# qrsmith. `make` builds the libraries, the command line and the examples; `make help` lists the rest.
#
# Sources are found by globs: a new file in gen/, runtime/, templates/, configs/ or tests/ needs no line here.
# Products are built with -O2 below $(BUILD), everything that tests link is built again with AddressSanitizer and
# UndefinedBehaviorSanitizer below $(BUILD)/san. Outputs appear by rename, so that two makes can share a tree.

BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
# 1: Lua and Jansson inside the qrsmith program, so that it runs where neither is installed.
STATIC ?= 0
# auto: where no CUDA toolkit is found, NVRTC is brought into $(BUILD)/nvrtc. none: built without.
NVRTC ?= auto
JOBS ?= $(shell nproc 2>/dev/null || echo 1)

version_part = $(shell sed -n 's/^.define QRS_VERSION_$(1) *\([0-9]*\)/\1/p' runtime/qrsmith.h)
VERSION := $(call version_part,MAJOR).$(call version_part,MINOR).$(call version_part,PATCH)
SOVERSION := 0

CC ?= cc
AR ?= ar
PKG_CONFIG ?= pkg-config
CLANG_FORMAT ?= clang-format

.DELETE_ON_ERROR:
.SUFFIXES:
.DEFAULT_GOAL := all

# ---------------------------------------------------------------------------------------------- sources

gen_src := $(sort $(wildcard gen/*.c))
runtime_src := $(sort $(wildcard runtime/*.c))
host_src := $(sort $(wildcard runtime/host/*.c))
judge_src := $(sort $(wildcard runtime/judge/*.c))
cli_src := $(sort $(wildcard runtime/cli/*.c runtime/tune/*.c))
example_src := $(sort $(wildcard runtime/examples/*.c))
testlib_src := $(sort $(wildcard tests/lib/*.c))
test_src := $(sort $(wildcard tests/test_*.c))
gpu_test_src := $(sort $(wildcard tests/gpu/test_*.c))
embedded_files := $(sort $(shell find templates configs -type f ! -name '.*' ! -name '*.md' ! -name '*.journal' ! -name '*~' 2>/dev/null))

examples := $(patsubst runtime/examples/%.c,$(BUILD)/examples/%,$(example_src))
tests := $(patsubst tests/%.c,$(BUILD)/tests/%,$(test_src))
gpu_tests := $(patsubst tests/%.c,$(BUILD)/tests/%,$(gpu_test_src))

# ---------------------------------------------------------------------------------------------- flags

WARNINGS := -Wall -Wextra -Werror
CFLAGS ?= -O2 -g
# -ffp-contract=off: the input generator must give the same bits on every machine.
all_cflags = -std=c11 -D_GNU_SOURCE $(WARNINGS) -fPIC -fno-semantic-interposition -pthread -ffp-contract=off \
	-I. -DQRSMITH_BUILD_VERSION='"$(VERSION)"' $(CFLAGS) $(lua_cflags) $(jansson_cflags)
san_cflags := -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
all_ldflags = -pthread -Wl,--as-needed $(LDFLAGS)

# Looked up once and only when a recipe needs them, so that `make help` works on a bare machine.
once = $(eval $(1) := $$(shell $(2)))$($(1))
lua_cflags = $(call once,lua_cflags,$(PKG_CONFIG) --cflags lua5.4 2>/dev/null)
jansson_cflags = $(call once,jansson_cflags,$(PKG_CONFIG) --cflags jansson 2>/dev/null)
lua_shared = $(call once,lua_shared,$(PKG_CONFIG) --libs lua5.4)
jansson_shared = $(call once,jansson_shared,$(PKG_CONFIG) --libs jansson)
cmocka_libs = $(call once,cmocka_libs,$(PKG_CONFIG) --libs cmocka)
lapack_libs = $(call once,lapack_libs,$(PKG_CONFIG) --libs lapacke openblas 2>/dev/null || echo -llapacke -lopenblas)

static_libs := -l:liblua5.4.a -l:libjansson.a -ldl -lm
shared_libs = $(lua_shared) $(jansson_shared) -ldl -lm
ifeq ($(STATIC),1)
libs = $(static_libs)
else
libs = $(shared_libs)
endif

# ---------------------------------------------------------------------------------------------- objects

objects = $(patsubst %.c,$(1)/obj/%.o,$(2))
lib_obj := $(call objects,$(BUILD),$(gen_src) $(runtime_src)) $(BUILD)/obj/embedded.o
host_obj := $(call objects,$(BUILD),$(host_src))
judge_obj := $(call objects,$(BUILD),$(judge_src))
cli_obj := $(call objects,$(BUILD),$(cli_src))
testlib_obj := $(call objects,$(BUILD),$(testlib_src))

compile = @mkdir -p $(@D) && echo "  cc   $<" && \
	$(CC) $(all_cflags) $(1) -MMD -MP -MF $(@:.o=.d) -MT $@ -c -o $@.$$$$.tmp $< && mv -f $@.$$$$.tmp $@
archive = @mkdir -p $(@D) && echo "  ar   $@" && $(AR) rcs $@.$$$$.tmp $^ && mv -f $@.$$$$.tmp $@
link = @mkdir -p $(@D) && echo "  link $@" && $(CC) -o $@.$$$$.tmp $(1) $(all_ldflags) && mv -f $@.$$$$.tmp $@

.PHONY: all libs tests gpu-tests nvrtc
all: $(if $(cli_src),$(BUILD)/qrsmith) libs $(examples) nvrtc
libs: $(BUILD)/libqrsmith.so $(BUILD)/libqrsmith.a $(BUILD)/libqrsmith-host.a
tests: $(tests)
gpu-tests: $(gpu_tests)

$(BUILD)/obj/%.o: %.c $(BUILD)/flags | $(BUILD)/checked
	$(call compile,)
$(BUILD)/san/obj/%.o: %.c $(BUILD)/flags | $(BUILD)/checked
	$(call compile,$(san_cflags))
$(BUILD)/obj/embedded.o: $(BUILD)/embedded.c $(BUILD)/flags | $(BUILD)/checked
	$(call compile,)

# Rewritten only when the compiler or its flags change.
$(BUILD)/flags: FORCE | $(BUILD)/checked
	@mkdir -p $(@D)
	@echo '$(subst ','\'',$(CC) $(all_cflags) $(san_cflags))' > $@.$$$$.tmp; \
	cmp -s $@.$$$$.tmp $@ && rm -f $@.$$$$.tmp || mv -f $@.$$$$.tmp $@

# ---------------------------------------------------------------------------------------------- embedding

$(BUILD)/embedded.list: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' $(embedded_files) > $@.$$$$.tmp; \
	cmp -s $@.$$$$.tmp $@ && rm -f $@.$$$$.tmp || mv -f $@.$$$$.tmp $@

$(BUILD)/embedded.c: gen/embed.sh $(BUILD)/embedded.list $(embedded_files)
	@echo "  embed $(words $(embedded_files)) files"
	@sh gen/embed.sh < $(BUILD)/embedded.list > $@.$$$$.tmp && mv -f $@.$$$$.tmp $@

# ---------------------------------------------------------------------------------------------- products

$(BUILD)/libqrsmith.a: $(lib_obj)
	$(call archive)
$(BUILD)/libqrsmith-host.a: $(host_obj)
	$(call archive)
$(BUILD)/libjudge.a: $(judge_obj)
	$(call archive)

# Only qrs_* leaves the shared library.
$(BUILD)/qrsmith.map: | $(BUILD)/checked
	@mkdir -p $(@D) && printf 'QRSMITH_$(SOVERSION) { global: qrs_*; local: *; };\n' > $@

so_flags := -shared -Wl,-soname,libqrsmith.so.$(SOVERSION) -Wl,--version-script,$(BUILD)/qrsmith.map -Wl,-z,defs
$(BUILD)/libqrsmith.so.$(VERSION): $(lib_obj) $(BUILD)/qrsmith.map
	$(call link,$(so_flags) $(lib_obj) $(libs))
$(BUILD)/libqrsmith.so: $(BUILD)/libqrsmith.so.$(VERSION)
	@ln -sf libqrsmith.so.$(VERSION) $(BUILD)/libqrsmith.so.$(SOVERSION) && ln -sf libqrsmith.so.$(SOVERSION) $@

program_deps := $(cli_obj) $(BUILD)/libjudge.a $(BUILD)/libqrsmith-host.a $(BUILD)/libqrsmith.a
$(BUILD)/qrsmith: $(program_deps)
	$(call link,$(program_deps) $(libs))

$(BUILD)/examples/%: $(BUILD)/obj/runtime/examples/%.o $(BUILD)/libqrsmith.so
	$(call link,$< -L$(BUILD) -lqrsmith -lm $(example_rpath))
example_rpath := -Wl,-rpath,'$$ORIGIN/..'

# ---------------------------------------------------------------------------------------------- tests

# An archive a folder; SKIP="cli host" leaves some out, for a test that needs none of them while they do not compile.
SKIP ?=
san_parts := $(filter-out $(SKIP),cli judge host runtime gen testlib)
san_libs := $(patsubst %,$(BUILD)/san/lib%.a,$(san_parts))
define san_archive
$(BUILD)/san/lib$(1).a: $$(call objects,$(BUILD)/san,$$($(1)_src)) $(2)
	$$(call archive)
endef
$(foreach part,cli judge host runtime testlib,$(eval $(call san_archive,$(part))))
$(eval $(call san_archive,gen,$(BUILD)/obj/embedded.o))
san_group = -Wl,--start-group $(filter %.a,$^) -Wl,--end-group

$(BUILD)/san/qrsmith: $(call objects,$(BUILD)/san,$(cli_src)) $(san_libs)
	$(call link,$(san_cflags) $(filter %.o,$^) $(san_group) $(shared_libs))
$(BUILD)/tests/test_%: $(BUILD)/san/obj/tests/test_%.o $(san_libs)
	$(call link,$(san_cflags) $(filter %.o,$^) $(san_group) $(shared_libs) $(cmocka_libs) $(lapack_libs) -rdynamic)

# The command line whose host executor reports what nothing orders (runtime/host/race.h): kernels are compiled with ThreadSanitizer, it is not.
.PHONY: race
race:
	+@$(submake) BUILD=$(BUILD)/race CFLAGS='-O2 -g -DQHX_TSAN=1' LDFLAGS=-fsanitize=thread $(BUILD)/race/qrsmith

# NVRTC takes many times as long in a process that AddressSanitizer watches, and it is not ours to check: the suite that
# mostly waits for it is built without. Its few uses elsewhere stay watched.
$(BUILD)/tests/test_nvrtc: $(BUILD)/obj/tests/test_nvrtc.o $(BUILD)/libtestlib.a $(BUILD)/libqrsmith.a
	$(call link,$^ $(shared_libs) $(cmocka_libs) -rdynamic)

# GPU programs travel to machines without our packages: no sanitizers, Lua and Jansson inside, CMocka beside.
$(BUILD)/tests/gpu/test_%: $(BUILD)/obj/tests/gpu/test_%.o $(BUILD)/libtestlib.a $(BUILD)/libjudge.a \
		$(BUILD)/libqrsmith-host.a $(BUILD)/libqrsmith.a
	$(call link,$^ $(static_libs) $(cmocka_libs) $(gpu_rpath))
gpu_rpath := -Wl,-rpath,'$$ORIGIN'
# An archive: helpers that want LAPACK stay out of programs that don't use them.
$(BUILD)/libtestlib.a: $(testlib_obj)
	$(call archive)

.PRECIOUS: $(BUILD)/obj/%.o $(BUILD)/san/obj/%.o

.PHONY: tidy-format format
formatted = $(wildcard $(addsuffix /*.[ch],gen runtime runtime/host runtime/judge runtime/cli runtime/tune runtime/examples tests tests/lib tests/gpu))
tidy-format:
	@$(CLANG_FORMAT) --dry-run -Werror $(formatted)
format:
	@$(CLANG_FORMAT) -i $(formatted)


# ---------------------------------------------------------------------------------------------- the machine

# Says what to install and stops, before the compiler would with less to say.
$(BUILD)/checked: .ci/setup
	@CC='$(CC)' PKG_CONFIG='$(PKG_CONFIG)' NVRTC='$(NVRTC)' CUDA_HOME='$(CUDA_HOME)' .ci/setup check build
	@mkdir -p $(@D) && touch $@

# A wheel's libnvrtc.so.N serves only where no toolkit is; the runtime looks for it beside itself.
ifeq ($(NVRTC),auto)
ifeq ($(shell CUDA_HOME='$(CUDA_HOME)' .ci/nvrtc find),)
nvrtc: $(BUILD)/nvrtc/LICENSE
endif
endif
$(BUILD)/nvrtc/LICENSE: .ci/nvrtc | $(BUILD)/checked
	@.ci/nvrtc fetch $(BUILD)/nvrtc && touch $@

submake = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))

# ---------------------------------------------------------------------------------------------- running

.PHONY: test test-all test-gpu demo install-build-packages install-test-packages
install-build-packages:
	@NVRTC='$(NVRTC)' CUDA_HOME='$(CUDA_HOME)' .ci/setup install build
install-test-packages:
	@NVRTC='$(NVRTC)' CUDA_HOME='$(CUDA_HOME)' .ci/setup install test

test: install-test-packages
	@$(submake) all tests $(BUILD)/san/qrsmith race
	@QRSMITH_BUILD=$(BUILD) tests/run -j $(JOBS) -t 540 $(tests)

# Every shape, kind and plan: up to an hour.
test-all: install-test-packages
	@$(submake) all tests $(BUILD)/san/qrsmith race
	@QRSMITH_BUILD=$(BUILD) QRSMITH_TEST_ALL=1 tests/run -j $(JOBS) -t 3600 $(tests)

test-gpu: install-test-packages
	@$(submake) all gpu-tests
	@if ls /dev/nvidia[0-9]* /dev/dxg > /dev/null 2>&1; then \
		QRSMITH_BUILD=$(BUILD) QRSMITH_BIN=$(BUILD)/qrsmith tests/run -j 1 -t 900 $(gpu_tests); \
	else \
		echo 'test-gpu: skipped, this machine has no NVIDIA GPU (no /dev/nvidia0)'; \
	fi

demo: install-build-packages
	@$(submake) all
	@BUILD=$(BUILD) JOBS=$(JOBS) .ci/demo

# ---------------------------------------------------------------------------------------------- taking it away

# A folder for a GPU machine without network: no Lua, Jansson or CMocka needed there. ./run in it does the rest.
bundle := $(BUILD)/gpu-bundle
.PHONY: gpu-bundle
gpu-bundle: install-test-packages
	@$(submake) $(bundle)/qrsmith gpu-tests
	@cp -f $(gpu_tests) $(bundle)/ 2>/dev/null || true
	@cp -f "$$(ldconfig -p | awk '/libcmocka\.so\.0 / { print $$NF; exit }')" $(bundle)/libcmocka.so.0
	@rm -rf $(bundle)/configs $(bundle)/templates $(bundle)/tests # what earlier commits had
	@cp -rf configs templates $(bundle)/
	@mkdir -p $(bundle)/tests/gpu && cp -rf tests/cases $(bundle)/tests/ && cp -rf tests/gpu/micro $(bundle)/tests/gpu/
	@cp -f tests/gpu/run.sh $(bundle)/run && cp -f tests/run $(bundle)/run-tests && chmod +x $(bundle)/run $(bundle)/run-tests
	@find $(bundle) -maxdepth 1 -type f ! -name '*run*' -exec strip --strip-debug {} +
	@du -sm $(bundle) | awk '{ print "$(bundle): " $$1 " MiB"; exit $$1 > 60 }'
$(bundle)/qrsmith: $(program_deps)
	$(call link,$(program_deps) $(static_libs))

.PHONY: install uninstall
lib_dir = $(DESTDIR)$(PREFIX)/lib
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(lib_dir)/pkgconfig $(DESTDIR)$(PREFIX)/include
	install -m 755 $(BUILD)/qrsmith $(DESTDIR)$(PREFIX)/bin/qrsmith
	install -m 644 runtime/qrsmith.h $(DESTDIR)$(PREFIX)/include/qrsmith.h
	install -m 644 $(BUILD)/libqrsmith.a $(lib_dir)/libqrsmith.a
	install -m 755 $(BUILD)/libqrsmith.so.$(VERSION) $(lib_dir)/libqrsmith.so.$(VERSION)
	ln -sf libqrsmith.so.$(VERSION) $(lib_dir)/libqrsmith.so.$(SOVERSION)
	ln -sf libqrsmith.so.$(SOVERSION) $(lib_dir)/libqrsmith.so
	printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$${prefix}/lib' 'includedir=$${prefix}/include' '' 'Name: qrsmith' \
		'Description: batched Householder QR kernels generated for NVIDIA GPUs' 'Version: $(VERSION)' \
		'Requires.private: lua5.4 jansson' 'Libs: -L$${libdir} -lqrsmith' 'Libs.private: -ldl -lm -pthread' \
		'Cflags: -I$${includedir}' > $(lib_dir)/pkgconfig/qrsmith.pc
	if [ -d $(BUILD)/nvrtc ]; then install -d $(lib_dir)/qrsmith/nvrtc && cp -f $(BUILD)/nvrtc/* $(lib_dir)/qrsmith/nvrtc/; fi
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/qrsmith $(DESTDIR)$(PREFIX)/include/qrsmith.h $(lib_dir)/libqrsmith.* \
		$(lib_dir)/pkgconfig/qrsmith.pc
	rm -rf $(lib_dir)/qrsmith

# ---------------------------------------------------------------------------------------------- housekeeping

.PHONY: generated help clean FORCE
# The rendered contest set that reviewers read; a test compares it with what the templates make.
generated: $(BUILD)/qrsmith
	@env -u QRSMITH_TEMPLATES -u QRSMITH_TUNED XDG_CONFIG_HOME=$(BUILD) $(BUILD)/qrsmith gen configs/contest.json -o generated --device-profile h200

help:
	@printf '%s\n' \
	'make                builds the libraries, build/qrsmith and the examples' \
	'make demo           installs what is missing, builds, generates, compiles and factors a batch' \
	'make test           installs what is missing and runs the tests (minutes)' \
	'make test-all       the same with every shape and kind (up to an hour)' \
	'make test-gpu       the tests that need a GPU' \
	'make race           build/race/qrsmith, which reports data races of kernels on the CPU' \
	'make gpu-bundle     a folder to carry to a GPU machine without network' \
	'make generated      renders configs/contest.json into generated/' \
	'make install        PREFIX=/usr/local DESTDIR=' \
	'make format         clang-format; make tidy-format only checks' \
	'make clean' \
	'make build/tests/test_X   one test program; SKIP="cli host" links it without those parts' \
	'Variables: BUILD, CC, CXX, CFLAGS, LDFLAGS, CUDA_HOME, NVRTC=none, STATIC=1, JOBS'
clean:
	rm -rf $(BUILD)
FORCE:

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
