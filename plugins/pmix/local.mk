# SPDX-License-Identifier: BSD-3-Clause
# Start-up through PMIx, where libpmix is.
EXTRA_DIST += plugins/pmix/pmix.c
if HAVE_PMIX
plugin_LTLIBRARIES += pmix.la
pmix_la_SOURCES = plugins/pmix/pmix.c
pmix_la_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
pmix_la_LDFLAGS = $(AM_LDFLAGS) $(plugin_ldflags)
pmix_la_LIBADD = $(PMIX_LIBS) -lpthread
endif
