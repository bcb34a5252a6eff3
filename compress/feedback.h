/* SPDX-License-Identifier: BSD-3-Clause */
/* Error feedback: what a rank keeps of a tensor from call to call, so that what images lose is made up for. */
#ifndef WI_COMPRESS_FEEDBACK_H
#define WI_COMPRESS_FEEDBACK_H

#include <stdint.h>

/* X(NAME, text after "ef=", what it is). Their numbers are in saved states.
 * EF14: Seide et al., 1-bit SGD, Interspeech 2014; Karimireddy et al., Error Feedback Fixes SignSGD, ICML 2019. */
#define WI_FEEDBACK_LIST(X)                        \
    X(NONE, "0", "nothing is kept")                \
    X(EF14, "1", "what an image lost is added the next time")

enum wi_feedback_form {
#define WI_FEEDBACK_FORM(name, text, what) WI_FEEDBACK_##name,
    WI_FEEDBACK_LIST(WI_FEEDBACK_FORM)
#undef WI_FEEDBACK_FORM
        WI_FEEDBACK_FORMS
};

/* The vectors of fp32 that are kept of a tensor; a form uses some of them.
 * WORKER: of what this rank gives; OWNER: of the sums that it makes for all. */
enum wi_feedback_plane { WI_PLANE_WORKER, WI_PLANE_OWNER, WI_PLANES };

static inline const char *wi_feedback_name(unsigned form)
{
    static const char *const names[] = {
#define WI_FEEDBACK_NAME(name, text, what) text,
        WI_FEEDBACK_LIST(WI_FEEDBACK_NAME)
#undef WI_FEEDBACK_NAME
    };

    return form < WI_FEEDBACK_FORMS ? names[form] : "unknown";
}

#endif
