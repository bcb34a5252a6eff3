EXTRA_DIST += \
	doc/adr/0001-schedules-are-data.md \
	doc/adr/0002-messages-not-streams.md \
	doc/adr/0003-mapped-epochs.md \
	doc/adr/0004-lanes-have-channels.md \
	doc/adr/0005-null-request-blocks.md \
	doc/adr/0006-environment-bootstrap.md
