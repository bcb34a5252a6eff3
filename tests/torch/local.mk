# The PyTorch front end. Skipped, with one line each, where PyTorch cannot be imported (./bootstrap check --minimal).
torch_scripts = \
	tests/torch/test_backend.sh \
	tests/torch/test_coalescing.sh \
	tests/torch/test_lifecycle.sh \
	tests/torch/test_faults.sh \
	tests/torch/test_tools.sh \
	tests/torch/test_mesh.sh \
	tests/torch/test_compress.sh tests/torch/test_compress_sharded.sh \
	tests/torch/test_convergence.sh \
	tests/torch/test_zero.sh tests/torch/test_zero_more.sh tests/torch/test_zero_activations.sh tests/torch/test_zero_activations_more.sh \
	tests/torch/test_zero_training.sh tests/torch/test_zero_optimizers.sh \
	tests/torch/test_security.sh \
	tests/torch/test_cache.sh \
	tests/torch/test_package.sh \
	tests/torch/test_wheel.sh \
	tests/torch/test_lint.sh \
	tests/torch/test_cxx.sh \
	tests/torch/test_suite.sh \
	tests/torch/test_slurm.sh tests/torch/test_kubernetes.sh \
	tests/torch/test_integration.sh
torch_long_scripts = \
	tests/torch/test_suite_whole.sh \
	tests/torch/test_integration_whole.sh \
	tests/torch/test_asan.sh \
	tests/torch/test_soak.sh \
	tests/torch/test_third_party.sh
long_scripts += $(torch_long_scripts)
EXTRA_DIST += tests/torch/suite.py tests/torch/suite_load.py tests/torch/suite_run.py tests/torch/suite_gloo.json \
	tests/torch/suite_quick.txt tests/torch/integration.py tests/torch/integration_cases.py tests/torch/integration_ops.py \
	tests/torch/integration_ranks.py tests/torch/integration_sharded.py tests/torch/integration_examples.py \
	tests/torch/third_party.py tests/torch/soak.py tests/torch/bench.py tests/torch/bench_ddp.py \
	examples/slurm/bench.sbatch examples/slurm/torch.sbatch examples/kubernetes/torch.yaml tests/torch/kubernetes.py \
	examples/torch/common.py examples/torch/ddp.py examples/torch/ddp_compressed.py examples/torch/fsdp2.py examples/torch/tensor_parallel.py \
	examples/torch/pipeline_1f1b.py examples/torch/moe_expert_parallel.py examples/torch/three_d.py \
	examples/torch/context_parallel.py examples/torch/checkpoint.py examples/torch/elastic.py \
	examples/torch/elastic_torchrun.sh examples/torch/zero3.py examples/torch/zero3_offload.py examples/torch/ds_config.json \
	examples/torch/zero_hf.py examples/torch/zero_trainer.py examples/torch/zero_accelerate.py
multi_scripts += $(torch_scripts) tests/torch/test_environment.sh
EXTRA_DIST += tests/torch/setup.sh tests/torch/python.sh tests/torch/kept_cxx.sh tests/torch/stubs.py tests/torch/forked.py tests/torch/cxx.py \
	tests/torch/cxx/no_python.cpp tests/torch/cxx/test_adapter.cpp tests/torch/cxx/tsan.supp tests/torch/cxx/lsan.supp \
	tests/torch/environment.sh tests/torch/requirements.txt tests/torch/tools.txt \
	tests/torch/see_packages.py tests/torch/pyproject.toml tests/torch/ranks.py tests/torch/backend.py tests/torch/coalescing.py \
	tests/torch/lifecycle.py tests/torch/faults.py tests/torch/mesh.py tests/torch/tools.py
EXTRA_DIST += tests/torch/security.py tests/torch/cache.py tests/torch/compress.py tests/torch/compress_sharded.py \
	tests/torch/zero.py tests/torch/zero_modules.py tests/torch/zero_faces.py tests/torch/zero_saves.py tests/torch/zero_calls.py tests/torch/zero_models.py tests/torch/zero_more.py tests/torch/zero_guide.py \
	tests/torch/zero_activations.py tests/torch/zero_activations_more.py tests/torch/zero_training.py tests/torch/zero_optimizers.py \
	tests/torch/convergence_smoke.py tests/bench/convergence.py tests/bench/line_plot.py tests/bench/bench_zero.py tests/bench/bench_activations.py
check-torch: all
	@WEFT_TEST_TIMEOUT=$${WEFT_TEST_TIMEOUT-180} $(MAKE) check-am TESTS="$(torch_scripts)" TEST_SUITE_LOG=check-torch.log
clean-local-torch:
	rm -rf torch-inductor torch-python torch-site torch-site.lock torch-cache torch-objects torch-cxx torch-asan torch-mypy torch-lint.log torch-zero.log torch-zero-more.log
clean-local: clean-local-torch
.PHONY: check-torch clean-local-torch
