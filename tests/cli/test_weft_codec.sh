#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weft-codec: speeds and errors that are about right, files that it reads, files and arguments that it refuses by name.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99

says() { # TEXT ARGUMENTS...
    local text=$1 out
    shift
    out=$(timeout 60 ./weft-codec "$@" 2>&1) || { echo "$out"; return 1; }
    grep -qE -- "$text" <<<"$out" || { echo "$out"; return 1; }
}
refused() { # STATUS TEXT ARGUMENTS...
    local wanted=$1 text=$2 out status
    shift 2
    out=$(timeout 60 ./weft-codec "$@" 2>&1)
    status=$?
    echo "status $status: $out"
    [ $status -eq "$wanted" ] && [ "$(wc -l <<<"$out")" -eq 1 ] && grep -qF -- "$text" <<<"$out" &&
        { [ "$wanted" -ne 2 ] || grep -q '; see weft-codec --help$' <<<"$out"; }
}
json() { # PYTHON ARGUMENTS...: `d` is the output
    local python=$1
    shift
    timeout 100 ./weft-codec --json "$@" >"$tap_dir/out.json" && python3 -c "
import json, sys
d = json.load(open(sys.argv[1]))
row = {c['codec']: c for c in d['codecs']}
error = {(c['codec'], e['data']): e for c in d['codecs'] for e in c.get('errors', [])}
$python" "$tap_dir/out.json"
}

# Every codec that the library lists, and no other.
all_codecs() {
    ./weft-codec --list | awk '{ print $1 }' >"$tap_dir/listed"
    json "
listed = open('$tap_dir/listed').read().split()
assert len(listed) >= 5 and 'int8' in listed and 'sign' in listed, listed
assert list(row) == listed, (list(row), listed)
for (codec, data), e in error.items():
    assert e['nmse'] is not None and 0 <= e['nmse'] < 20 and e['not_held'] == 0, (codec, e)
    assert abs(e['ratio'] * row[codec]['bits_per_element'] - 32) < 1e-9, (codec, e)
" --only errors -e 20000
}
# Rounding to 2^b - 1 levels of the largest of 128 Gaussian elements, step s: s^2/12. E max = 2.8 sigma: within a third. The sign
# scaled by the mean magnitude loses 1 - 2/pi of Gaussian data, and 1/2 of Laplace's.
known_errors() {
    json "
assert abs(error['sign', 'gaussian']['nmse'] - (1 - 2 / 3.14159265)) < 0.01, error['sign', 'gaussian']
assert abs(error['sign', 'laplace']['nmse'] - 0.5) < 0.015, error['sign', 'laplace']
for bits, levels in ((8, 127), (6, 31), (4, 7)):
    want = (2.8 / levels) ** 2 / 12
    got = error[f'int{bits}', 'gaussian']['nmse']
    assert 0.7 * want < got < 1.4 * want, (bits, got, want)
    assert error[f'int{bits}', 'student3']['nmse'] > got
    e = error[f'int{bits}', 'gaussian']
    assert 0 < e['max_error'] <= e['max_value'] / levels / 2 * 1.02, e
assert error['sign', 'sparse']['nmse'] > 0.9
assert row['int8']['bits_per_element'] == 8.125 and row['sign']['bits_per_element'] == 1.125
" --only errors -e 1000000 sign int8 int6 int4
}
seeds() {
    ./weft-codec --only errors -e 5000 int4 >"$tap_dir/1a" && ./weft-codec --only errors -e 5000 int4 --seed 1 >"$tap_dir/1b" &&
        ./weft-codec --only errors -e 5000 int4 --seed 2 >"$tap_dir/2" && cmp "$tap_dir/1a" "$tap_dir/1b" &&
        ! cmp -s "$tap_dir/1a" "$tap_dir/2"
}
speeds() { # ARGUMENTS...
    json "
assert d['bytes'] == 1000000 // 4 * 4
image = 8.125 / 32
for name, vectors in (('encode', 1), ('encode_residual', 3), ('decode', 1)):
    s = row['int8']['speed'][name]
    assert abs(s['bytes'] / d['bytes'] - vectors - image) < 0.001, s
    assert abs(s['bytes_per_second'] * s['seconds'] / s['bytes'] - 1) < 1e-9, s
    assert 0.001 < s['of_memcpy'] < 100, s
assert row['int8']['speed']['memcpy']['bytes_per_second'] > 1e7
assert 'errors' not in row['int8']
" --only speed -n 1000000 -r 3 int8 "$@"
}
is_svg() {
    timeout 60 ./weft-codec --plot "$tap_dir/a.svg" -n 64K -e 4096 -r 1 >/dev/null && python3 - "$tap_dir/a.svg" "$tap_dir/listed" <<'END'
import sys
import xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
name = "{http://www.w3.org/2000/svg}"
texts = [t.text for t in root.iter(name + "text")]
listed = open(sys.argv[2]).read().split()
assert all(texts.count(codec) == 2 for codec in listed), texts
assert {"gaussian", "laplace", "student3", "sparse"} <= set(texts)
assert len(list(root.iter(name + "circle"))) == 4 * len(listed)
width, height = float(root.get("width")), float(root.get("height"))
for rect in root.iter(name + "rect"):
    if rect.get("x"):
        assert 0 <= float(rect.get("x")) and float(rect.get("x")) + float(rect.get("width")) <= width
        assert 0 <= float(rect.get("y")) and float(rect.get("y")) + float(rect.get("height")) <= height
labels = [(float(t.get("x")), float(t.get("y")), 4.8 * len(t.text)) for t in root.iter(name + "text") if t.get("font-size") == "8"]
assert len(labels) == len(listed) and all(
    abs(a[1] - b[1]) >= 7.9 or a[0] + a[2] <= b[0] + .1 or b[0] + b[2] <= a[0] + .1 for i, a in enumerate(labels) for b in labels[:i]), labels
dots = {dot[0].text.split(":")[0]: float(dot.get("cx")) for dot in root.iter(name + "circle")}
assert dots["blocktopk"] < dots["topk"] < dots["sign"] < dots["int8"], dots
for dot in root.iter(name + "circle"):
    assert 0 <= float(dot.get("cx")) <= width and 0 <= float(dot.get("cy")) <= height
END
}

# Files are made here, without NumPy.
python3 - "$tap_dir" <<'END' || exit 99
import json, struct, sys
folder = sys.argv[1]

def write(name, data):
    with open(f"{folder}/{name}", "wb") as f:
        f.write(data)

def npy(descr, shape, payload, version=1, order="False", length=None):
    header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    size = struct.pack("<H" if version == 1 else "<I", len(header) if length is None else length)
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + payload

def safe(tensors, data, length=None, metadata=True):
    header = json.dumps(({"__metadata__": {"format": "pt"}} if metadata else {}) | tensors).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data

values = [(-1) ** i * i / 16 for i in range(300)]
f4 = struct.pack("<300f", *values)
f2 = struct.pack("<300e", *values)
bf16 = b"".join(struct.pack("<f", v)[2:] for v in values)
write("f4.npy", npy("<f4", "(300,)", f4))
write("f4v2.npy", npy("<f4", "(3, 100)", f4, 2, "True"))
write("f2.npy", npy("<f2", "(300,)", f2))
write("bf16.npy", npy("<V2", "(300,)", bf16))
write("scalar.npy", npy("<f4", "()", f4[:4]))
write("empty.npy", npy("<f4", "(0, 7)", b""))
write("short.npy", npy("<f4", "(301,)", f4))
write("long.npy", npy("<f4", "(299,)", f4))
write("lying.npy", npy("<f4", "(300,)", f4, length=60000))
write("lying2.npy", npy("<f4", "(300,)", f4, 2, length=0xffffffff))
write("lying3.npy", bytes(b + (i == 8) for i, b in enumerate(npy("<f4", "(0,)", b""))))
write("big.npy", npy(">f4", "(300,)", f4))
write("double.npy", npy("<f8", "(150,)", f4))
write("huge.npy", npy("<f4", "(4294967296, 4294967296, 2)", f4))
write("huger.npy", npy("<f4", "(99999999999999999999,)", f4))
write("negative.npy", npy("<f4", "(-300,)", f4))
write("v3.npy", npy("<f4", "(300,)", f4, 3))
write("twice.npy", npy("<f4', 'descr': '<f4", "(300,)", f4))
write("code.npy", npy("<f4", "(300,).__class__", f4))
write("cut.npy", npy("<f4", "(300,)", f4)[:9])
write("nan.npy", npy("<f4", "(300,)", struct.pack("<f", float("nan")) + f4[4:]))

T = lambda dtype, shape, begin, end: {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
all3 = {"half": T("F16", [300], 1200, 1800), "a.float": T("F32", [3, 100], 0, 1200), "brain": T("BF16", [300], 1800, 2400),
        "ids": T("I64", [2], 2400, 2416)}
data = f4 + f2 + bf16 + bytes(16)
write("all.safetensors", safe(all3, data))
write("odd.safetensors", safe({"x": T("U8", [1], 0, 1), "y": T("F32", [300], 1, 1201)}, b"x" + f4, metadata=False))
write("none.safetensors", safe({"ids": T("I64", [2], 0, 16)}, bytes(16)))
write("truncated.safetensors", safe(all3, data[:2000]))
write("lying.safetensors", safe(all3, data, length=1 << 40))
write("lying2.safetensors", safe(all3, data, length=(1 << 64) - 1))
write("shape.safetensors", safe({"x": T("F32", [299], 0, 1200)}, f4))
write("overlap.safetensors", safe({"x": T("F32", [300], 0, 1200), "y": T("F32", [1], 0, 4)}, f4))
write("hole.safetensors", safe({"x": T("F32", [299], 4, 1200)}, f4))
write("tail.safetensors", safe({"x": T("F32", [299], 0, 1196)}, f4))
write("dtype.safetensors", safe({"x": T("F33", [300], 0, 1200)}, f4))
write("huge.safetensors", safe({"x": T("F32", [1 << 62, 8], 0, 1200)}, f4))
write("negative.safetensors", safe({"x": T("F32", [-300], 0, 1200)}, f4))
write("backwards.safetensors", safe({"x": T("F32", [300], 1200, 0)}, f4))
twice = b'{"x": {"dtype":"F32","shape":[0],"data_offsets":[0,0]}, "x": {"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
write("twice.safetensors", struct.pack("<Q", len(twice)) + twice)
write("text.safetensors", struct.pack("<Q", 20) + b"{" + b"x" * 19)
write("words.txt", b"These are only words, and no tensors.")
write("nothing", b"")
write("escape.safetensors", safe({"w\x1b[2J\nint8": T("F32", [300], 0, 1200)}, f4))
with open(f"{folder}/header.safetensors", "wb") as f:  # sparse
    f.write(struct.pack("<Q", 100000001) + b"{")
    f.truncate(100000020)
END

# What the same values become does not depend on the file they come from. 300 values up to 18.7: int8 holds them to a 127th.
same_everywhere() {
    local f
    for f in f4.npy f4v2.npy f2.npy bf16.npy all.safetensors; do
        json "
assert all(e['elements'] == 300 and e['not_held'] == 0 for e in error.values()), error
for e in error.values():
    assert 18.5 < e['max_value'] < 18.75 and 0.01 < e['max_error'] < 18.75 / 127 / 2 * 1.02, e
    assert 1e-6 < e['nmse'] < 3e-5, e
kinds = {e['dtype']: e['ratio'] for e in error.values()}
assert all(ratio * row['int8']['bits_per_element'] == (32 if dtype == 'float' else 16) for dtype, ratio in kinds.items()), kinds
assert len(kinds) == (3 if '$f' == 'all.safetensors' else 1), kinds
" --only errors -f "$tap_dir/$f" int8 || { echo "$f"; return 1; }
    done
    json "
assert [e['data'] for e in d['codecs'][0]['errors']] == ['a.float', 'half', 'brain'], d
assert d['left_out'] == 1
errors = {e['data']: e['nmse'] for e in d['codecs'][0]['errors']}
assert errors['a.float'] == errors['half'] != errors['brain'], errors
" --only errors -f "$tap_dir/all.safetensors" int8
}
one_tensor() {
    json "assert [e['data'] for e in d['codecs'][0]['errors']] == ['half'] and d['left_out'] == 0, d" --only errors \
        -f "$tap_dir/all.safetensors" --tensor half int8
}
not_finite() {
    json "
e = error['int8:block=128', 'array']
assert e['not_held'] == 127 and e['nmse'] is not None and e['max_error'] > 0, e" --only errors -f "$tap_dir/nan.npy" int8:block=128
}
unwritable() {
    local out
    out=$(timeout 60 ./weft-codec -n 4K -e 100 -r 1 int8 --plot /nonexistent/a.svg 2>&1) # before anything is measured
    [ $? -eq 1 ] && [ "$(wc -l <<<"$out")" -eq 1 ] && grep -qF '/nonexistent/a.svg' <<<"$out"
}
bad_file() { # FILE TEXT
    refused 1 "$2" --only errors -f "$tap_dir/$1" int8
}

tap "every codec is listed and measured" all_codecs
tap "errors that are known" known_errors
tap "the same seed, the same data" seeds
tap "speeds count bytes read and written" speeds
tap "speeds with threads" speeds --threads 3
tap "tables" says '^int4:block=64 +4\.250 +7\.53 ' -n 64K -e 1000 -r 1 int4:block=64
tap "a picture" is_svg
tap "no elements" refused 2 '--elements takes 1 to 4G: 0' --only errors -e 0 int8
tap "empty parameters" refused 1 'codec "int4:": a parameter is empty' --only errors int4:
tap "the same values in every file" same_everywhere
tap "one tensor" one_tensor
tap "a tensor that is not aligned" says '^int8 .* y +300 ' --only errors -f "$tap_dir/odd.safetensors" int8
tap "elements that are not finite" not_finite
escape() { # names from a file give the terminal no orders
    ./weft-codec --only errors -f "$tap_dir/escape.safetensors" int8 >"$tap_dir/out" && [ "$(wc -l <"$tap_dir/out")" -eq 3 ] &&
        ! grep -q $'\e' "$tap_dir/out" && grep -qF 'w?[2J?int8' "$tap_dir/out"
}
tap "a tensor whose name has control characters" escape
loaded() { # a codec that is a plugin, and one whose images are of many lengths
    mkdir -p "$tap_dir/plugins" && cp .libs/drops.so "$tap_dir/plugins/" && { [ ! -f .libs/lossless.so ] || cp .libs/lossless.so "$tap_dir/plugins/"; } &&
        chmod 700 "$tap_dir"/plugins{,/*.so} || return 1
    WEFT_COMPRESS=nonsense WEFT_PLUGIN_PATH=$tap_dir/plugins says '^drops +32\.000 +1\.00 +gaussian' --only errors -e 1000 drops &&
        WEFT_PLUGIN_PATH=$tap_dir/plugins says '^drops ' --list || return 1
    [ ! -f .libs/lossless.so ] || WEFT_PLUGIN_PATH=$tap_dir/plugins json "
assert error['lossless', 'gaussian']['nmse'] == error['lossless', 'sparse']['nmse'] == 0
assert 22 < row['lossless']['bits_per_element'] < 30 and error['lossless', 'sparse']['ratio'] > 4, d" -n 1M -r 1 -e 100000 lossless --threads 2
}
tap "codecs that are plugins" loaded
no_lossless() {
    mkdir -p "$tap_dir/none" && chmod 700 "$tap_dir/none" && WEFT_PLUGIN_PATH=$tap_dir/none refused 1 \
        "there is no codec \"lossless\": it is a plugin, and was not loaded from $tap_dir/none (WEFT_PLUGIN_PATH)" lossless
}
tap "a plugin that is not there" no_lossless
tap "a scalar" says 'array +1 ' --only errors -f "$tap_dir/scalar.npy" int8
tap "an empty array" says 'array +0 ' --only errors -f "$tap_dir/empty.npy" int8
tap "truncated .npy" bad_file short.npy 'truncated: the shape is of 1204 bytes, and 1200 follow'
tap ".npy with more than its shape" bad_file long.npy 'too long: the shape is of 1196 bytes'
tap ".npy whose length lies" bad_file lying.npy 'the header says it has 60000 bytes'
tap ".npy 2.0 whose length lies" bad_file lying2.npy 'the header says it has 4294967295 bytes'
tap ".npy whose length is longer by one" bad_file lying3.npy 'truncated: the header says it has'
tap ".npy of big-endian floats" bad_file big.npy "'>f4'"
tap ".npy of doubles" bad_file double.npy "'<f8'"
tap ".npy with too many elements" bad_file huge.npy 'more elements than can be counted'
tap ".npy with too large a number" bad_file huger.npy 'above 2^64'
tap ".npy with a negative number" bad_file negative.npy 'numbers from 0'
tap ".npy 3.0" bad_file v3.npy 'version 3.0'
tap ".npy with an entry twice" bad_file twice.npy "'descr' twice"
tap ".npy with code" bad_file code.npy "'.' where '}'"
tap ".npy that ends in its header" bad_file cut.npy 'truncated: 9 bytes'
tap "truncated safetensors" bad_file truncated.safetensors 'truncated'
tap "safetensors whose length lies" bad_file lying.safetensors 'the header says it has 1099511627776 bytes'
tap "safetensors whose length is the largest" bad_file lying2.safetensors 'the header says it has 18446744073709551615 bytes'
tap "safetensors with a header that is too long" bad_file header.safetensors 'the format allows 100000000'
tap "safetensors with another shape" bad_file shape.safetensors 'tensor "x": its shape is of 1196 bytes, and "data_offsets" of 1200'
tap "safetensors that overlap" bad_file overlap.safetensors 'it overlaps the one before'
tap "safetensors with a hole" bad_file hole.safetensors 'bytes before it are of no tensor'
tap "safetensors with more behind" bad_file tail.safetensors '4 bytes at the end are of no tensor'
tap "safetensors of an unknown type" bad_file dtype.safetensors '"F33" is not known'
tap "safetensors with too many elements" bad_file huge.safetensors 'can be counted'
tap "safetensors with a negative number" bad_file negative.safetensors 'numbers from 0'
tap "safetensors backwards" bad_file backwards.safetensors 'begin <= end'
tap "safetensors with a name twice" bad_file twice.safetensors 'no JSON object'
tap "safetensors without JSON" bad_file text.safetensors 'no JSON object'
tap "safetensors without floats" bad_file none.safetensors 'no tensor of F32'
tap "another file" bad_file words.txt 'neither a .npy file'
tap "an empty file" bad_file nothing 'neither a .npy file'
tap "a folder" bad_file . 'directory'
tap "a file that is not there" refused 1 '/nonexistent' -f /nonexistent
tap "no such tensor" refused 1 'no tensor of that name' -f "$tap_dir/all.safetensors" --tensor third
tap "no such codec" refused 1 'int8' int9
tap "no such parameter" refused 1 'blok' int8:blok=3
tap "a parameter out of its range" refused 1 '2048' int8:block=4096
tap "none" refused 1 'nothing is encoded' none
tap "a wrong size" refused 2 'many' --bytes many
tap "too large a size" refused 2 '64G' --bytes 100000G
tap "no timings" refused 2 '--repeat takes 1' --repeat 0
tap "no threads" refused 2 '--threads takes 1' --threads 0
tap "a tensor of no file" refused 2 '--tensor is of a --file' --tensor x
tap "--only something" refused 2 'something' --only something
tap "a picture of half of it" refused 2 '--plot draws both' --only speed --plot "$tap_dir/b.svg"
tap "a picture that cannot be written" unwritable
tap "no such option" refused 2 "'--frob' is not an option" --frob
tap "--help" says "Usage: weft-codec" --help
tap "--help to a full disk" output_lost ./weft-codec --help
tap_end
