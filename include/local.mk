weftincludedir = $(includedir)/weft
weftinclude_HEADERS = include/weft/weft.h include/weft/weft_types.h include/weft/weft_plugin.h include/weft/weft_compress.h \
	include/weft/weft_client.h include/weft/weft_zero.h include/weft/weft_zero_config.h
EXTRA_DIST += include/weft.map include/weft_zero.map
