/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration file: lines `NAME = value`, where NAME may lack WEFT_. `#` at the start of a line or behind a
 * space begins a comment; a value in double quotes is taken as it stands. */
#include "base/settings_given.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/status.h"

#define FILE_MAX_BYTES (64u << 10)

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static int is_name_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The whole file as a string. */
static weft_status file_load(const char *path, char **text)
{
    size_t bytes;
    char *buffer;

    WI_TRY(wi_file_read(path, "configuration file", FILE_MAX_BYTES, &buffer, &bytes));
    if (memchr(buffer, '\0', bytes)) {
        wi_free(buffer);
        return wi_fail(WEFT_ECONFIG, "configuration file \"%s\": contains a NUL byte", path);
    }
    *text = buffer;
    return WEFT_SUCCESS;
}

/* Cut the value out of what follows '=': ends it and returns its start, or NULL if a quote is not closed. */
static char *value_cut(char *text)
{
    char *end;

    while (is_blank(*text))
        text++;
    if (*text == '"') {
        end = strchr(text + 1, '"');
        if (!end)
            return NULL;
        *end++ = '\0';
        while (is_blank(*end))
            end++;
        return *end == '\0' || *end == '#' ? text + 1 : NULL;
    }
    for (end = text; *end; end++) {
        if (*end == '#' && (end == text || is_blank(end[-1])))
            break;
    }
    while (end > text && is_blank(end[-1]))
        end--;
    *end = '\0';
    return text;
}

static weft_status line_add(struct wi_given_list *list, const char *path, int line, char *text)
{
    const struct wi_given *earlier;
    char *name = text, *end, *value;

    while (is_blank(*name))
        name++;
    if (*name == '\0' || *name == '#')
        return WEFT_SUCCESS;
    for (end = name; is_name_char(*end); end++)
        ;
    for (value = end; is_blank(*value); value++)
        ;
    if (end == name || *value != '=')
        return wi_fail(WEFT_ECONFIG, "%s:%d: expected NAME = value, NAME in upper case", path, line);
    *end = '\0';
    value = value_cut(value + 1);
    if (!value)
        return wi_fail(WEFT_ECONFIG, "%s:%d: %s: text around a quoted value, or a quote not closed", path, line, name);
    earlier = wi_given_find(list, name, WI_ORIGIN_FILE);
    if (earlier)
        return wi_fail(WEFT_ECONFIG, "%s:%d: %s is already set in line %d", path, line, earlier->name, earlier->line);
    return wi_given_add(list, name, strlen(name), value, WI_ORIGIN_FILE, line);
}

weft_status wi_given_read_file(struct wi_given_list *list, const char *path)
{
    weft_status status = WEFT_SUCCESS;
    char *text = NULL, *next;
    int line = 0;

    WI_TRY(file_load(path, &text));
    for (char *p = text; p && status == WEFT_SUCCESS; p = next) {
        next = strchr(p, '\n');
        if (next)
            *next++ = '\0';
        status = line_add(list, path, ++line, p);
    }
    wi_free(text);
    return status;
}
