/* SPDX-License-Identifier: BSD-3-Clause */
/* Error feedback: what a rank keeps of a tensor from call to call, so that what images lose is made up for. */
#ifndef WI_COMPRESS_FEEDBACK_H
#define WI_COMPRESS_FEEDBACK_H

#include <stdint.h>

/* X(NAME, text after "ef=", what it is). Their numbers are in saved states. With g what a rank gives, C an image, D what that has:
 *
 *   EF14  c = g + e; send C(c); e <- c - D. Seide et al., 1-bit SGD, Interspeech 2014; Karimireddy et al., Error Feedback Fixes
 *         SignSGD, ICML 2019.
 *   LOCO  c = g + e; send C(c); e <- beta e + (1 - beta) (c - D). Xie et al., LoCo, 2024.
 *   EF21  send C(g - h); h <- h + D; the sum of all h is what all have. Richtarik et al., EF21, NeurIPS 2021; the owner's sums
 *         likewise, as in Fatkhullin et al., EF21 with Bells & Whistles, 2021.
 *   DGC   u <- m u + g; v <- v + u; send C(v); v <- v - D; with masking u <- 0 where D is not 0. Lin et al., Deep Gradient
 *         Compression, ICLR 2018; without masking it is the momentum of Zheng et al., dist-EF-SGDM, NeurIPS 2019. */
#define WI_FEEDBACK_LIST(X)                                              \
    X(NONE, "0", "nothing is kept")                                      \
    X(EF14, "1", "what an image lost is added the next time")            \
    X(LOCO, "loco", "an average of what images lost is added")           \
    X(EF21, "ef21", "what changed since the last image is sent")         \
    X(DGC, "dgc", "momentum is gathered until it is sent")

enum wi_feedback_form {
#define WI_FEEDBACK_FORM(name, text, what) WI_FEEDBACK_##name,
    WI_FEEDBACK_LIST(WI_FEEDBACK_FORM)
#undef WI_FEEDBACK_FORM
        WI_FEEDBACK_FORMS
};

struct wi_feedback {
    uint8_t form;
    float beta;      /* LOCO: below 1 */
    float momentum;  /* DGC: below 1 */
    float clip;      /* DGC: of the norm of what all ranks give together; 0: it is not clipped */
    uint8_t masking; /* DGC: of what was sent the momentum begins anew */
    uint32_t warmup; /* DGC: steps in which more is sent than the codec's ratio says */
};
/* What it keeps is not a residual that encoding adds, but a state of the algorithm. */
static inline int wi_feedback_form_has_state(unsigned form)
{
    return form == WI_FEEDBACK_EF21 || form == WI_FEEDBACK_DGC;
}
static inline int wi_feedback_has_state(const struct wi_feedback *f)
{
    return wi_feedback_form_has_state(f->form);
}
/* Encoding itself does all of it, with e at hand or without. */
static inline int wi_feedback_is_of_encoding(const struct wi_feedback *f)
{
    return f->form == WI_FEEDBACK_NONE || f->form == WI_FEEDBACK_EF14;
}

/* The vectors of fp32 that are kept of a tensor; a form uses some of them.
 * WORKER: of what this rank gives: e, h, v. OWNER: of the sums that it makes for all: e; EF21: the sum of the others' h.
 * MORE: EF21: what all ranks have, the same bits; DGC: u. */
enum wi_feedback_plane { WI_PLANE_WORKER, WI_PLANE_OWNER, WI_PLANE_MORE, WI_PLANES };

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
