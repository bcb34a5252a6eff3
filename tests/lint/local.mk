check_scripts += \
	tests/lint/test_lint.py \
	tests/lint/includes.py \
	tests/lint/style.py \
	tests/lint/format.sh \
	tests/lint/symbols.py \
	tests/lint/ctypes_structs.py \
	tests/lint/hardening.sh

format:
	cd $(srcdir) && git ls-files '*.c' '*.cpp' | xargs $$(command -v clang-format-14 || echo clang-format) -i --style=file
.PHONY: format
