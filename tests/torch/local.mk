# The PyTorch front end. Skipped, with one line each, where PyTorch cannot be imported: ./bootstrap installs Debian's packages only.
torch_scripts = \
	tests/torch/test_backend.sh \
	tests/torch/test_faults.sh \
	tests/torch/test_tools.sh \
	tests/torch/test_package.sh
multi_scripts += $(torch_scripts)
EXTRA_DIST += tests/torch/setup.sh tests/torch/ranks.py tests/torch/backend.py tests/torch/faults.py tests/torch/tools.py
check-torch: all
	@WEFT_TEST_TIMEOUT=$${WEFT_TEST_TIMEOUT-180} $(MAKE) check-am TESTS="$(torch_scripts)" TEST_SUITE_LOG=check-torch.log
clean-local-torch:
	rm -rf torch-site torch-site.lock torch-cache
clean-local: clean-local-torch
.PHONY: check-torch clean-local-torch
