# SPDX-License-Identifier: BSD-3-Clause
# Codec lossless, where libzstd is.
if HAVE_ZSTD
plugin_LTLIBRARIES += lossless.la
lossless_la_SOURCES = plugins/zstd/lossless.c plugins/zstd/planes.c plugins/zstd/planes.h
lossless_la_CFLAGS = $(AM_CFLAGS) $(ZSTD_CFLAGS)
lossless_la_LDFLAGS = $(AM_LDFLAGS) $(plugin_ldflags)
lossless_la_LIBADD = $(ZSTD_LIBS) -lm -lpthread

unit_tests += tests/unit/test_lossless
tests_unit_test_lossless_SOURCES = tests/unit/test_lossless.c
tests_unit_test_lossless_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
endif
