#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The manual pages of section 3, from comments and structs of the installed headers, and the examples beside this script.

  pages.py            write them into the script's folder
  pages.py --check    say which of them are not what this script would write

The text of a page is the function's comment: change it there. `as every operation` and `as every creation` are
replaced by what the header says once for all of them."""

import os
import re
import sys
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
HEADERS = ("weft_types.h", "weft.h", "weft_compress.h", "weft_client.h", "weft_zero.h", "weft_zero_config.h")
LIBRARIES = {"weft_zero.h": "-lweft_zero -lweft", "weft_zero_config.h": "-lweft_zero -lweft"}  # where it is not -lweft alone
DATE = "2026-11-21"
WIDTH = 71  # of a line that man indents

# Pages with more than one function; each other function has a page of its own.
GROUPS = [
    (["version", "version_number", "status_name", "status_text", "dtype_name", "dtype_bytes", "op_name", "kind_name"],
     "version of the library, names of its constants"),
    (["context_create", "context_destroy"], "attach a process to weft, and detach it"),
    (["context_settings", "context_plugins"], "visit settings and plugins"),
    (["context_check", "context_security"], "ask whether a context can be used, and how start-up is protected"),
    (["comm_create_env", "comm_create_id", "unique_id_create", "comm_create_file", "comm_create_oob"],
     "make a communicator"),
    (["comm_split", "comm_dup"], "make communicators from a communicator"),
    (["comm_destroy", "comm_abort"], "end or break a communicator"),
    (["comm_rank", "comm_size", "comm_name", "comm_host", "comm_local"], "ask who and where the ranks are"),
    (["comm_peer", "comm_routes"], "ask by which transport ranks reach each other"),
    (["comm_topology", "comm_mesh"], "describe the machine, place ranks on it"),
    (["comm_newest_algorithm"], "ask by which algorithm a collective ran"),
    (["comm_status", "last_error", "thread_error"], "find out what failed"),
    (["context_read_settings", "comm_context", "thread_error_set"], "share settings and errors with a library built on weft"),
    (["probe", "request_message"], "see which messages have come"),
    (["wait", "wait_for", "wait_any", "wait_all", "test"], "complete operations"),
    (["group_start", "group_end"], "issue operations together"),
    (["op_create", "op_create_premul_sum", "op_destroy"], "make reduction operators"),
    (["codec_bytes", "codec_check", "codec_image_bytes", "codec_encode", "codec_decode"],
     "encode and decode vectors as compressed collectives do"),
    (["comm_residual_bytes", "comm_residual_list", "comm_residual_scale", "comm_residual_clear"],
     "see to what error feedback keeps"),
    (["comm_residual_save", "comm_residual_load"], "save what error feedback keeps, and load it"),
    (["mem_alloc", "mem_free"], "allocate memory that other ranks can reach"),
    (["mem_pool_alloc", "mem_pool_free", "mem_pool_reserved"], "allocate memory that other ranks can reach from a pool"),
    (["mem_register", "mem_deregister"], "make existing memory reachable for other ranks"),
    (["zero_create", "zero_destroy"], "make and end an engine that shards the state of training"),
    (["zero_param_add", "zero_unit_add", "zero_seal"], "describe a model whose state is sharded"),
    (["zero_param_set", "zero_param_get", "zero_param_data"], "set, get and find values of sharded parameters"),
    (["zero_pre_forward", "zero_post_forward", "zero_pre_backward", "zero_post_backward"],
     "say which part of a model is in use"),
    (["zero_grad_add", "zero_grad_buffer", "zero_grad_ready"], "hand gradients in"),
    (["zero_micro_batch_end", "zero_accumulate"], "accumulate gradients of several micro-batches"),
    (["zero_step", "zero_set_step", "zero_drop_gradients", "zero_loss_scale", "zero_offload_memory"], "update sharded parameters"),
    (["zero_save", "zero_save_prepare", "zero_save_progress", "zero_save_wait"], "save a checkpoint while training goes on"),
    (["zero_spill_create", "zero_spill_put", "zero_spill_fetch", "zero_spill_get", "zero_spill_drop", "zero_spill_get_stats",
      "zero_spill_destroy"], "keep bytes in a file until they are wanted again"),
    (["zero_ds_config_read", "zero_ds_config_free", "zero_ds_config_engine", "zero_ds_config_hyper", "zero_ds_config_hyper_of_rest", "zero_ds_config_dtype",
      "zero_ds_config_text", "zero_ds_config_warning"], "read a configuration of DeepSpeed"),
]
SHOWN = ("weft_context_config", "weft_comm_config", "weft_mesh_axis", "weft_call", "weft_call_options", "weft_message", "weft_oob",
         "weft_error", "weft_batch_item", "weft_kind", "weft_security", "weft_collective_info", "weft_key_state", "weft_plugin_info", "weft_peer_info", "weft_route_info",
         "weft_zero_config", "weft_zero_optimizer", "weft_zero_reduce", "weft_zero_param", "weft_zero_hyper", "weft_zero_step_info",
         "weft_zero_what", "weft_zero_stats", "weft_zero_save_options", "weft_zero_save_info", "weft_zero_save_phase",
         "weft_zero_save_status", "weft_zero_load_info", "weft_zero_spill_config", "weft_zero_spill_stats",
         "weft_zero_ds_model", "weft_zero_ds_key")
TAGS = ("Cost", "In place", "Dangers", "Ownership", "Threads", "Blocks", "Paper")
STATUSES = r"(?:WEFT_[A-Z]+(?:, WEFT_[A-Z]+)*|any [\w ]+?|a failure[\w ]+?)"


class Doc:
    """A comment of the header, taken apart."""

    def __init__(self, comment):
        self.summary, self.text, self.tags, self.params, self.returns, self.gives = "", [], [], [], [], ""
        lines = [re.sub(r"^ \* ?", "", line) for line in comment[3:-2].rstrip().split("\n")]
        self.item, self.in_return = None, False
        for line in lines:
            self.line(line)
        self.end()

    def end(self):
        if self.item is not None:
            kind, name, words = self.item
            text = " ".join(words.split())
            if kind == "text" and not self.summary:
                self.summary = text
            elif kind == "text":
                self.text.append(text)
            elif kind == "tag":
                self.tags += [(tag.strip(), text) for tag in name.split(",")]
            elif kind == "param":
                self.params += [(param.strip(), text) for param in name.split(",")]
            elif kind == "return":
                self.returns.append((name, text))
            else:
                self.gives = text
        self.item = None

    def line(self, line):
        status = re.match(r"(?:@return| {7}) (?:(%s)(?:\s\s+|$)|(WEFT_[A-Z]+) (?=\w))" % STATUSES, line)
        tag = re.match(r"((?:%s)(?:, (?:%s))*): +" % ("|".join(TAGS), "|".join(TAGS)), line)
        param = re.match(r"@param ([\w.]+(?:, \w+)*)\s+", line)
        if not line.strip():
            self.end()
            self.in_return = False
        elif status and (self.in_return or line.startswith("@return")):
            self.end()
            self.item, self.in_return = ["return", status.group(1) or status.group(2), line[status.end():]], True
        elif line.startswith("@return "):
            self.end()
            self.item, self.in_return = ["gives", "", line[8:]], True
        elif tag:
            self.end()
            self.item, self.in_return = ["tag", tag.group(1), line[tag.end():]], False
        elif param:
            self.end()
            self.item, self.in_return = ["param", param.group(1), line[param.end():]], False
        elif self.item is not None:
            self.item[2] += " " + line
        else:
            self.item = ["text", "", line]

    def tag(self, name):
        return next((text for tag, text in self.tags if tag == name), None)


def prototype(declaration):
    """The declaration in lines for a terminal of 80 columns, its parameters below each other."""
    text = " ".join(declaration.split())
    head = re.match(r"typedef \w+ \(\*\w+\)\(|[^(]*\(", text).group(0)
    parts, indent = re.findall(r"[^,]+(?:, |$)", text[len(head):]), len(head)
    lines = [head]
    if indent + max(len(part.rstrip()) for part in parts) > WIDTH:
        lines, indent = [head, " " * 8], 8
    for part in parts:
        if len((lines[-1] + part).rstrip()) > WIDTH and lines[-1].strip():
            lines.append(" " * indent)
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def read_header(text):
    """{function: (Doc, declaration)}, {title of a comment for many: Doc}, types by name, in the header's order."""
    functions, shared, callbacks = {}, {}, {}
    for block in re.finditer(r"^/\*(?:(?!\*/).)*\*/\n(?=(.*?)(?:\n\n|\Z))", text, flags=re.S | re.M):
        comment, below = block.group(0).rstrip(), block.group(1)
        if "----" in comment or re.match(r"/\* weft\w*(?:\.h)?:", comment):
            continue
        below = "\n" if below.startswith("\n") else below
        declarations = re.findall(r"^WEFT_API\b[^;]*;", below, flags=re.M)
        callback = re.match(r"typedef \w+ \(\*(weft_\w+)\)[^;]*;", below)
        if declarations:
            doc = Doc(comment)
            for declaration in declarations:
                functions[re.search(r"\b(weft_\w+)\s*\(", declaration).group(1)] = (doc, declaration[len("WEFT_API "):])
        elif callback:
            callbacks[callback.group(1)] = (Doc(comment), callback.group(0))
        elif below.startswith("\n"):
            doc = Doc(comment)
            shared[doc.summary] = doc
    return functions, shared, callbacks


def read_types(text):
    """{type: (comment, definition)} of the structs whose fields a caller sets or reads, and of the lists of constants that they
    take, in the header's order."""
    types = {}
    for block in re.finditer(r"(/\*(?:(?!\*/).)*\*/\n)(typedef (?:struct|enum) (weft_\w+) \{(?:(?!^\}).)*?^\} \3;)", text, flags=re.S | re.M):
        types[block.group(3)] = block.group(2)
    for block in re.finditer(r"^#define WEFT_(\w+)_LIST\(X\)(.*?[^\\])$", text, flags=re.S | re.M):
        names = re.findall(r"X\((WEFT_\w+),", block.group(2))
        types["weft_" + block.group(1).lower()] = "typedef enum weft_%s {\n%s\n} weft_%s;" % (
            block.group(1).lower(), textwrap.fill(", ".join(names), 76, initial_indent="    ", subsequent_indent="    "),
            block.group(1).lower())
    return types


def read_examples():
    """{page: C source}"""
    with open(os.path.join(HERE, "examples.txt"), encoding="utf-8") as source:
        parts = re.split(r"^==== (\w+)\n", source.read(), flags=re.M)
    return {name: code.strip("\n") for name, code in zip(parts[1::2], parts[2::2])}


# ---- roff ----

def escape(text):
    text = text.replace("\\", "\\e").replace("…", "...").replace("-", "\\-")
    text = "".join(c if ord(c) < 128 else "\\[u%04X]" % ord(c) for c in text)
    return re.sub(r"`([^`]*)`", r"\\fI\1\\fR", text)


def words(text):
    """Filled text: lines that are no requests."""
    lines = textwrap.wrap(escape(text), 100, break_long_words=False, break_on_hyphens=False)
    return "\n".join("\\&" + line if line[0] in ".'" else line for line in lines)


def verbatim(code):
    lines = [line.replace("\\", "\\e").replace("-", "\\-") for line in code.split("\n")]
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in lines)


def sentence(text):
    return text if text[-1] in ".:" else text + "."


class Page:
    def __init__(self, names, summary, header, examples, own):
        self.functions, self.shared, self.callbacks, self.types = header
        self.names, self.summary, self.own, self.out = names, summary, own, []
        self.docs = {}
        for name in names:
            doc = self.functions[name][0]
            if doc not in self.docs:
                self.docs[doc] = name
        self.example = examples[names[0]]

    def add(self, *lines):
        self.out += lines

    def common(self, doc):
        """What the doc refers to: all operations, all creations."""
        text = doc.gives + " ".join(t for _, t in doc.params + doc.tags)
        found = []
        if "operation" in text or "weft_send and weft_recv" in text:
            found += [d for title, d in self.shared.items() if title.startswith("Every operation")]
        if "creation" in text:
            found += [d for title, d in self.shared.items() if title.startswith("Creating")]
        return found

    def params(self, doc):
        for name, text in doc.params:
            if re.match(r"as for every (operation|creation)$", text):
                yield from ((n, t) for d in self.common(doc) for n, t in d.params if n == name)
            else:
                inherited = [t for d in self.common(doc) for n, t in d.params if n == name]
                match = re.match(r"(.*)as for every (?:operation|creation)(.*)", text)
                yield name, match.group(1) + inherited[0] + match.group(2) if match and inherited else text

    def tags(self, doc):
        for name, text in doc.tags:
            match = re.match(r"as (?:for )?every (?:operation|creation)[.;]?\s*(.*)", text)
            if not match:
                yield name, text
                continue
            for other in self.common(doc):
                if other.tag(name):
                    yield name, other.tag(name) + (" " + sentence(match.group(1)) if match.group(1) else "")
                    break

    def inherited(self, doc):
        return self.common(doc) if doc.gives.startswith("as ") else []

    def errors(self, doc):
        """(statuses, causes), the special ones joined with the common ones."""
        rows = []
        for source in self.inherited(doc) if len(self.docs) == 1 else []:
            rows += [row for row in source.returns if row[0] != "WEFT_SUCCESS"]
        special = list(doc.returns)
        if "weft_send and weft_recv" in doc.gives:
            special += self.functions["weft_send"][0].returns + self.functions["weft_recv"][0].returns
        for names, text in special:
            at = next((i for i, row in enumerate(rows) if row[0] == names), None)
            if at is None:
                rows.append((names, text))
            elif text not in rows[at][1]:
                rows[at] = (names, rows[at][1] + "; " + text)
        return [row for row in rows if row[0] not in ("WEFT_SUCCESS", "WEFT_INPROGRESS")]

    def synopsis(self):
        self.add(".SH SYNOPSIS", ".nf", ".B #include <weft/%s>" % self.own, ".PP")
        if self.own in LIBRARIES:
            self.add(".B Link with \\fI%s\\fB" % escape(LIBRARIES[self.own]), ".PP")
        for i, name in enumerate(self.names):
            declaration = self.functions[name][1]
            for callback, (_, text) in self.callbacks.items():
                if callback in declaration and i == min(
                        k for k, n in enumerate(self.names) if callback in self.functions[n][1]):
                    self.add("\\fB" + verbatim(prototype(text)).replace("\n", "\\fR\n\\fB") + "\\fR", ".PP")
            self.add("\\fB" + verbatim(prototype(declaration)).replace("\n", "\\fR\n\\fB") + "\\fR")
            if i + 1 < len(self.names):
                self.add(".PP")
        self.add(".fi")

    def structs(self):
        """Those that the functions take, and those that these point to."""
        text = " ".join(self.functions[name][1] for name in self.names)
        text += " ".join(declaration for name, (_, declaration) in self.callbacks.items() if re.search(r"\b%s\b" % name, text))
        shown = []
        for _ in range(2):
            for name, definition in self.types.items():
                if name not in shown and name in SHOWN and re.search(r"\b%s\b" % name, text):
                    shown.append(name)
                    text += definition
        if shown:
            self.add(".SH TYPES")
            for name in shown:
                self.add(".EX", verbatim(self.types[name]), ".EE", ".PP")
            self.out.pop()

    def describe(self, doc):
        self.add(words(sentence(doc.summary)))
        for text in doc.text:
            self.add(".PP", words(text))
        for name, text in self.tags(doc):
            self.add(".TP", ".B " + name, words(sentence(text)))

    def list_params(self, doc):
        declaration = self.functions[self.docs[doc]][1]
        for name, text in sorted(self.params(doc), key=lambda row: re.search(r"\b%s\b[,)\[]" % row[0], declaration).start()):
            self.add(".TP", ".I " + name, words(sentence(text)))

    def each(self, title, fn, wanted):
        """A section, with a part for each function where there are several."""
        docs = [(doc, name) for doc, name in self.docs.items() if wanted(doc)]
        if not docs:
            return
        self.add(".SH " + title)
        for doc, name in docs:
            if fn == self.list_errors and (doc, name) == docs[0]:
                self.common_errors()
            if len(self.docs) > 1:
                self.add(".SS " + ", ".join(n for n in self.names if self.functions[n][0] is doc))
            fn(doc)

    def common_errors(self):
        """Where a page has several functions: what they all return, once."""
        seen = []
        for doc in self.docs if len(self.docs) > 1 else []:
            for source in self.inherited(doc):
                if source in seen:
                    continue
                users = [name for other, name in self.docs.items() if source in self.inherited(other)]
                self.add(".SS " + ", ".join(users))
                self.list_errors(source)
                seen.append(source)

    def describe_callbacks(self):
        for name, (doc, declaration) in self.callbacks.items():
            if any(name in self.functions[n][1] for n in self.names):
                self.add(".SS " + name, words(sentence(doc.summary)))
                for text in doc.text:
                    self.add(".PP", words(text))
                for param, text in doc.params:
                    self.add(".TP", ".I " + param, words(sentence(text)))

    def return_value(self):
        self.add(".SH RETURN VALUE")
        good = []
        for doc, name in self.docs.items():
            lead = name + ": " if len(self.docs) > 1 else ""
            if doc.gives and not doc.gives.startswith("as "):
                good.append(lead + doc.gives)
                continue
            for source in [doc] + (self.common(doc) if doc.gives else []):
                for status, text in source.returns:
                    if status in ("WEFT_SUCCESS", "WEFT_INPROGRESS") and text:
                        good.append(f"{lead}{status}: {text}")
        for text in good:
            self.add(words(sentence(text) if not text.startswith("weft_") else text + "."), ".br")
        if any(self.errors(doc) for doc in self.docs):
            self.add(words("WEFT_SUCCESS (0) on success." if not good else "") or ".br",
                     words("On failure a negative status, one of those below; outputs are written only on success. "
                           "weft_thread_error(3) is its text."))
        while self.out[-1] == ".br":
            self.out.pop()
        self.out = [line for i, line in enumerate(self.out)
                    if not (line == ".br" and i + 1 < len(self.out) and self.out[i + 1] == ".br")]

    def list_errors(self, doc):
        for status, text in self.errors(doc):
            self.add(".TP", words(status).replace("WEFT", "\\fBWEFT", 1) + "\\fR" if status.startswith("WEFT")
                     else ".I " + status, words(sentence(text or ("see weft_issue(3)" if status.endswith("collective") else "see there"))))

    def render(self, see):
        title = self.names[0]
        self.add('.\\" SPDX-License-Identifier: BSD-3-Clause',
                 f'.\\" Written by doc/man/pages.py from include/weft/{self.own}: change it there.',
                 f'.TH {title.upper()} 3 "{DATE}" "weft" "weft manual"',
                 ".SH NAME", ", ".join(self.names) + " \\- " + escape(self.summary))
        self.synopsis()
        self.structs()
        self.each("DESCRIPTION", self.describe, lambda doc: True)
        self.describe_callbacks()
        self.each("PARAMETERS", self.list_params, lambda doc: list(self.params(doc)))
        self.return_value()
        self.each("ERRORS", self.list_errors, self.errors)
        self.add(".SH EXAMPLE", ".EX", verbatim(self.example), ".EE", ".SH SEE ALSO")
        see = [f".BR {page} (3)," for page in see if page != title] + [".BR weft_zero (7),"] * (self.own in LIBRARIES)
        self.add(*see, ".BR weft (7)")
        return "\n".join(line for line in self.out if line) + "\n"


SEE = {
    "operation": ["weft_wait", "weft_start", "weft_group_start", "weft_issue", "weft_last_error"],
    "weft_version": ["weft_context_settings"],
    "weft_context_create": ["weft_comm_create_env", "weft_context_settings", "weft_thread_error"],
    "weft_context_settings": ["weft_context_create", "weft_algorithm_list"],
    "weft_comm_create_env": ["weft_context_create", "weft_comm_destroy", "weft_comm_split", "weft_thread_error"],
    "weft_comm_split": ["weft_comm_create_env", "weft_comm_destroy"],
    "weft_comm_destroy": ["weft_comm_create_env", "weft_comm_status", "weft_request_free"],
    "weft_comm_rank": ["weft_comm_create_env"],
    "weft_comm_status": ["weft_comm_abort", "weft_comm_dump", "weft_status_name"],
    "weft_comm_set_timeout": ["weft_issue", "weft_wait_for"],
    "weft_context_read_settings": ["weft_context_settings", "weft_thread_error"],
    "weft_context_check": ["weft_context_create", "weft_comm_create_env"],
    "weft_comm_newest_algorithm": ["weft_algorithm_list", "weft_issue", "weft_comm_dump"],
    "weft_comm_newest_collective": ["weft_comm_newest_algorithm", "weft_comm_dump", "weft_codec_bytes"],
    "weft_comm_dump": ["weft_last_error", "weft_comm_newest_algorithm", "weft_comm_newest_collective"],
    "weft_request_on_complete": ["weft_wait", "weft_request_free"],
    "weft_probe": ["weft_recv"],
    "weft_issue": ["weft_persistent", "weft_all_reduce", "weft_algorithm_list", "weft_comm_set_timeout"],
    "weft_persistent": ["weft_start", "weft_issue", "weft_wait", "weft_request_free"],
    "weft_start": ["weft_persistent", "weft_wait", "weft_request_free", "weft_group_start"],
    "weft_wait": ["weft_request_free", "weft_start", "weft_comm_set_timeout"],
    "weft_request_free": ["weft_wait", "weft_start"],
    "weft_group_start": ["weft_send", "weft_wait"],
    "weft_op_create": ["weft_all_reduce"],
    "weft_mem_alloc": ["weft_mem_pool_alloc", "weft_mem_register", "weft_context_create"],
    "weft_mem_pool_alloc": ["weft_mem_alloc", "weft_mem_register"],
    "weft_mem_register": ["weft_mem_alloc"],
    "weft_algorithm_list": ["weft_issue"],
    "weft_codec_bytes": ["weft_issue", "weft_codec_list"],
    "weft_codec_list": ["weft_codec_bytes", "weft_algorithm_list"],
    "weft_comm_residual_bytes": ["weft_issue", "weft_codec_bytes"],
    "weft_comm_label": ["weft_issue", "weft_last_error"],
    "weft_zero_create": ["weft_zero_param_add", "weft_zero_step", "weft_zero_ds_config_read", "weft_thread_error"],
    "weft_zero_param_add": ["weft_zero_create", "weft_zero_param_set", "weft_zero_pre_forward"],
    "weft_zero_param_set": ["weft_zero_param_add", "weft_zero_pre_forward", "weft_zero_load"],
    "weft_zero_pre_forward": ["weft_zero_param_set", "weft_zero_grad_add", "weft_zero_micro_batch_end"],
    "weft_zero_grad_add": ["weft_zero_pre_forward", "weft_zero_micro_batch_end", "weft_zero_step"],
    "weft_zero_micro_batch_end": ["weft_zero_grad_add", "weft_zero_step"],
    "weft_zero_step": ["weft_zero_create", "weft_zero_micro_batch_end", "weft_zero_save"],
    "weft_zero_save": ["weft_zero_load", "weft_zero_export", "weft_zero_step"],
    "weft_zero_load": ["weft_zero_save", "weft_zero_export", "weft_zero_param_set"],
    "weft_zero_export": ["weft_zero_save", "weft_zero_load"],
    "weft_zero_get_stats": ["weft_zero_create", "weft_zero_step"],
    "weft_zero_ds_config_read": ["weft_zero_ds_keys", "weft_zero_create", "weft_zero_step"],
    "weft_zero_ds_keys": ["weft_zero_ds_config_read"],
}


def pages():
    """{file name: text}"""
    text, own = "", {}
    for name in HEADERS:
        with open(os.path.join(HERE, "..", "..", "include", "weft", name), encoding="utf-8") as source:
            part = source.read()
        own.update((function, name) for function in re.findall(r"^WEFT_API\b[^;(]*?\b(weft_\w+)\s*\(", part, flags=re.M))
        text += part
    header = read_header(text) + (read_types(text),)
    functions, examples, out = header[0], read_examples(), {}
    grouped = {"weft_" + name for names, _ in GROUPS for name in names}
    todo = [(["weft_" + name for name in names], summary) for names, summary in GROUPS]
    for name, (doc, _) in functions.items():
        if name in grouped:
            continue
        todo.append(([name], doc.summary[0].lower() + doc.summary[1:].rstrip(".")))
    for names, summary in todo:
        see = SEE.get(names[0], SEE["operation"])
        out[names[0] + ".3"] = Page(names, summary, header, examples, own[names[0]]).render(see)
        for other in names[1:]:
            out[other + ".3"] = f".so man3/{names[0]}.3\n"
    missing = set(functions) - {name[:-2] for name in out}
    unused = set(examples) - {names[0] for names, _ in todo}
    if missing or unused:
        raise SystemExit(f"no page for {sorted(missing)}, no use for the examples {sorted(unused)}")
    return out


def main():
    wanted, stale = pages(), []
    present = {name for name in os.listdir(HERE) if name.endswith(".3")}
    for name, text in wanted.items():
        path = os.path.join(HERE, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as page:
                if page.read() == text:
                    continue
        stale.append(name)
        if "--check" not in sys.argv[1:]:
            with open(path, "w", encoding="utf-8") as page:
                page.write(text)
    stale += sorted(present - set(wanted))
    if "--check" in sys.argv[1:] and stale:
        print("not what doc/man/pages.py writes: " + ", ".join(stale))
        return 1
    print(f"{len(wanted)} pages, {len(stale)} {'stale' if '--check' in sys.argv[1:] else 'written'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
