dist_man_MANS += \
	doc/man/weft.7 \
	doc/man/weft_algorithm_list.3 \
	doc/man/weft_all_gather.3 \
	doc/man/weft_all_gather_v.3 \
	doc/man/weft_all_reduce.3 \
	doc/man/weft_all_to_all.3 \
	doc/man/weft_all_to_all_v.3 \
	doc/man/weft_barrier.3 \
	doc/man/weft_broadcast.3 \
	doc/man/weft_comm_abort.3 \
	doc/man/weft_comm_create_env.3 \
	doc/man/weft_comm_create_file.3 \
	doc/man/weft_comm_create_id.3 \
	doc/man/weft_comm_create_oob.3 \
	doc/man/weft_comm_destroy.3 \
	doc/man/weft_comm_dump.3 \
	doc/man/weft_comm_dup.3 \
	doc/man/weft_comm_host.3 \
	doc/man/weft_comm_local.3 \
	doc/man/weft_comm_mesh.3 \
	doc/man/weft_comm_name.3 \
	doc/man/weft_comm_newest_algorithm.3 \
	doc/man/weft_comm_rank.3 \
	doc/man/weft_comm_set_timeout.3 \
	doc/man/weft_comm_size.3 \
	doc/man/weft_comm_split.3 \
	doc/man/weft_comm_status.3 \
	doc/man/weft_comm_topology.3 \
	doc/man/weft_context_check.3 \
	doc/man/weft_context_create.3 \
	doc/man/weft_context_destroy.3 \
	doc/man/weft_context_plugins.3 \
	doc/man/weft_context_security.3 \
	doc/man/weft_context_settings.3 \
	doc/man/weft_dtype_bytes.3 \
	doc/man/weft_dtype_name.3 \
	doc/man/weft_exscan.3 \
	doc/man/weft_gather.3 \
	doc/man/weft_gather_v.3 \
	doc/man/weft_group_end.3 \
	doc/man/weft_group_start.3 \
	doc/man/weft_issue.3 \
	doc/man/weft_kind_name.3 \
	doc/man/weft_last_error.3 \
	doc/man/weft_mem_alloc.3 \
	doc/man/weft_mem_deregister.3 \
	doc/man/weft_mem_free.3 \
	doc/man/weft_mem_register.3 \
	doc/man/weft_mem_pool_alloc.3 \
	doc/man/weft_mem_pool_free.3 \
	doc/man/weft_mem_pool_reserved.3 \
	doc/man/weft_op_create.3 \
	doc/man/weft_op_create_premul_sum.3 \
	doc/man/weft_op_destroy.3 \
	doc/man/weft_op_name.3 \
	doc/man/weft_persistent.3 \
	doc/man/weft_recv.3 \
	doc/man/weft_reduce.3 \
	doc/man/weft_reduce_scatter.3 \
	doc/man/weft_reduce_scatter_v.3 \
	doc/man/weft_request_free.3 \
	doc/man/weft_scan.3 \
	doc/man/weft_scatter.3 \
	doc/man/weft_scatter_v.3 \
	doc/man/weft_send.3 \
	doc/man/weft_probe.3 \
	doc/man/weft_request_message.3 \
	doc/man/weft_request_on_complete.3 \
	doc/man/weft_send_recv.3 \
	doc/man/weft_start.3 \
	doc/man/weft_status_name.3 \
	doc/man/weft_status_text.3 \
	doc/man/weft_test.3 \
	doc/man/weft_thread_error.3 \
	doc/man/weft_unique_id_create.3 \
	doc/man/weft_version.3 \
	doc/man/weft_version_number.3 \
	doc/man/weft_wait.3 \
	doc/man/weft_wait_all.3 \
	doc/man/weft_wait_any.3 \
	doc/man/weft_wait_for.3

# Pages of section 3 are written from weft.h; tests/lint/man_pages.py says when they are stale.
man-pages:
	$(srcdir)/doc/man/pages.py
.PHONY: man-pages

check_scripts += tests/lint/man_pages.py

EXTRA_DIST += \
	doc/man/pages.py \
	doc/man/examples.txt \
	doc/adr/0001-schedules-are-data.md \
	doc/adr/0002-messages-not-streams.md \
	doc/adr/0003-mapped-epochs.md \
	doc/adr/0004-lanes-have-channels.md \
	doc/adr/0005-null-request-blocks.md \
	doc/adr/0006-environment-bootstrap.md \
	doc/adr/0007-stores-are-learnt.md \
	doc/adr/0008-hash-of-history.md \
	doc/adr/0009-pytorch-adapter.md \
	doc/adr/0010-parcels.md \
	doc/adr/0011-secure-start.md \
	doc/adr/0012-who-a-peer-is.md \
	doc/adr/0013-start-up-is-authenticated.md \
	doc/adr/0014-forked-children.md \
	doc/adr/0015-calls-as-data.md \
	doc/adr/0016-lowering.md doc/adr/0018-engines-and-gates.md \
	doc/guide/measured.md \
	doc/guide/prediction.svg \
	doc/guide/simulator.md \
	doc/guide/algorithms.md \
	doc/guide/import.md \
	doc/guide/topology.md \
	doc/guide/planning.md \
	doc/guide/security.md \
	doc/guide/shared-memory.md doc/guide/tcp.md
