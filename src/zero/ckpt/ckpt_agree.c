/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks tell each other how they fare. */
#include "zero/ckpt/ckpt_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"

weft_status wi_ckpt_group_init(struct wi_ckpt_group *group, weft_comm *comm)
{
    *group = (struct wi_ckpt_group){comm, 0, 1, NULL};
    if (comm) {
        WI_TRY(weft_comm_rank(comm, &group->rank));
        WI_TRY(weft_comm_size(comm, &group->nranks));
    }
    group->words = wi_calloc((size_t)group->nranks, sizeof(*group->words));
    return group->words ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "out of memory for what %d ranks say", group->nranks);
}

void wi_ckpt_group_fini(struct wi_ckpt_group *group)
{
    wi_free(group->words);
    group->words = NULL;
}

static void say(struct wi_ckpt_word *word, weft_status status)
{
    word->status = status;
    wi_ckpt_text_copy(word->text, sizeof(word->text),
                      status >= 0       ? ""
                      : *wi_fail_text() ? wi_fail_text()
                                        : weft_status_text(status));
}

/* The library that has the communicator records its own texts. */
static weft_status of_collective(weft_status st)
{
    return st < 0 ? wi_fail(st, "checkpoint: ranks cannot agree: %s", weft_thread_error()) : st;
}

static weft_status heard(const struct wi_ckpt_group *group, int rank, struct wi_ckpt_word *word)
{
    wi_text_sanitize(word->text, sizeof(word->text));
    word->tag[sizeof(word->tag) - 1] = '\0';
    word->id[sizeof(word->id) - 1] = '\0';
    if (word->status >= 0)
        return WEFT_SUCCESS;
    return rank == group->rank ? wi_fail((weft_status)word->status, "%s", word->text)
                               : wi_fail((weft_status)word->status, "rank %d: %s", rank, word->text);
}

weft_status wi_ckpt_gather(struct wi_ckpt_group *group, const struct wi_ckpt_word *word, weft_status mine)
{
    weft_status st = WEFT_SUCCESS;

    group->words[group->rank] = *word;
    say(&group->words[group->rank], mine);
    if (group->comm)
        WI_TRY(of_collective(
            weft_all_gather(group->comm, &group->words[group->rank], group->words, sizeof(*word), WEFT_UINT8, NULL)));
    for (int r = group->nranks - 1; r >= 0; r--) {
        weft_status one = heard(group, r, &group->words[r]);

        st = one < 0 ? one : st;
    }
    return st;
}

weft_status wi_ckpt_tell(struct wi_ckpt_group *group, struct wi_ckpt_word *word, weft_status mine)
{
    if (group->rank == 0)
        say(word, mine);
    if (group->comm)
        WI_TRY(of_collective(weft_broadcast(group->comm, word, word, sizeof(*word), WEFT_UINT8, 0, NULL)));
    return heard(group, 0, word);
}
