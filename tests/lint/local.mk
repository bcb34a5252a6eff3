check_scripts += \
	tests/lint/test_lint.py \
	tests/lint/includes.py \
	tests/lint/style.py \
	tests/lint/format.sh \
	tests/lint/symbols.py \
	tests/lint/hardening.sh

format:
	cd $(srcdir) && git ls-files '*.c' '*.cpp' | xargs clang-format -i --style=file
.PHONY: format
