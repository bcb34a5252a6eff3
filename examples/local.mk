# Programs to read and to copy; the tests run each of them.
examples = examples/all_reduce examples/ring examples/split examples/overlap examples/persistent examples/compressed_all_reduce \
	examples/zero1
test_programs += $(examples)
noinst_HEADERS += examples/check.h
examples_all_reduce_SOURCES = examples/all_reduce.c
examples_all_reduce_LDADD = libweft.la
examples_ring_SOURCES = examples/ring.c
examples_ring_LDADD = libweft.la
examples_split_SOURCES = examples/split.c
examples_split_LDADD = libweft.la
examples_overlap_SOURCES = examples/overlap.c
examples_overlap_LDADD = libweft.la
examples_persistent_SOURCES = examples/persistent.c
examples_persistent_LDADD = libweft.la
examples_compressed_all_reduce_SOURCES = examples/compressed_all_reduce.c
examples_compressed_all_reduce_LDADD = libweft.la -lm
examples_zero1_SOURCES = examples/zero1.c
examples_zero1_LDADD = libweft_zero.la libweft.la -lm

multi_scripts += tests/multi/test_examples.sh tests/multi/test_readme.sh tests/multi/test_install.sh
EXTRA_DIST += tests/harness/tap.sh
