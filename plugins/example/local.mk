# The skeletons of a transport and of a codec plugin. A plugin to be installed stands in plugin_LTLIBRARIES (and goes to
# $libdir/weft); these are only built for the tests, hence -rpath.
plugin_ldflags = -module -avoid-version -shared -Wl,--no-undefined

test_modules += self.la
self_la_SOURCES = plugins/example/self.c
self_la_LDFLAGS = $(AM_LDFLAGS) $(plugin_ldflags) -rpath $(plugindir)

test_modules += ternary.la
ternary_la_SOURCES = plugins/example/ternary.c
ternary_la_LDFLAGS = $(self_la_LDFLAGS)

test_modules += wrong_abi.la old_abi.la wrong_bytes.la no_symbol.la no_ops.la long_name.la drops.la
wrong_abi_la_SOURCES = tests/unit/plugins/wrong_abi.c
wrong_abi_la_LDFLAGS = $(self_la_LDFLAGS)
old_abi_la_SOURCES = tests/unit/plugins/old_abi.c
old_abi_la_LDFLAGS = $(self_la_LDFLAGS)
wrong_bytes_la_SOURCES = tests/unit/plugins/wrong_bytes.c
wrong_bytes_la_LDFLAGS = $(self_la_LDFLAGS)
no_symbol_la_SOURCES = tests/unit/plugins/no_symbol.c
no_symbol_la_LDFLAGS = $(self_la_LDFLAGS)
no_ops_la_SOURCES = tests/unit/plugins/no_ops.c
no_ops_la_LDFLAGS = $(self_la_LDFLAGS)
long_name_la_SOURCES = tests/unit/plugins/long_name.c
long_name_la_LDFLAGS = $(self_la_LDFLAGS)
drops_la_SOURCES = tests/unit/plugins/drops.c
drops_la_LDFLAGS = $(self_la_LDFLAGS)

unit_tests += tests/unit/test_plugin
tests_unit_test_plugin_SOURCES = tests/unit/test_plugin.c
tests_unit_test_plugin_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
