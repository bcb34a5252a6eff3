/* Gradient compression: codecs, and collectives whose messages are coded.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A collective is compressed when its call names a codec (weft_call_options.codec), or, for all_reduce and reduce_scatter of
 * floats by sum or avg, when WEFT_COMPRESS does. What each rank sends is then a coded image; sums are made in fp32, in rank order,
 * and every rank gets the same bits. all_reduce, reduce_scatter, all_gather and all_to_all, their v-forms, and broadcast of
 * float32, float16 and bfloat16 can be compressed. Where nodes have several ranks, what crosses the nodes may be all that is coded:
 * the partial sum of a node, by one of its ranks for each part, which keeps what that loses.
 *
 * A codec is text, NAME[:PARAMETER=VALUE[,PARAMETER=VALUE]...], the same on all ranks; "none" is no codec:
 *
 *   int8, int6, int4   signed integers, scaled by the largest magnitude of each block: 8.1, 6.1, 4.1 bits an element
 *   int2               four levels, scaled by the mean magnitude: 2.1 bits
 *   sign               the sign, scaled by the mean magnitude: 1.1 bits (Karimireddy et al., Error Feedback Fixes SignSGD, ICML
 *                      2019). means=2: negative elements have a mean of their own
 *   bf16, fp16         floats of 16 bits, without a scale: what is summed is summed in fp32, and rounded once
 *   e4m3, e5m2         floats of 8 bits, scaled by the largest magnitude: 8.1 bits
 *   mxfp8, mxfp6, mxfp4  OCP Microscaling formats, 32 elements and a power of two: 8.25, 6.25, 4.25 bits. element=e4m3|e5m2 of
 *                      mxfp8, e2m3|e3m2 of mxfp6
 *   qsgd               levels=7 of each sign, scaled by the norm, rounded at random: 4.1 bits (Alistarh et al., QSGD, NeurIPS
 *                      2017). 1 to 127 levels: 2, 4, 6 or 8 bits
 *   terngrad           -1, 0 or 1, scaled by the largest magnitude of what is within clip=2.5 root mean squares (0: of all),
 *                      rounded at random: 2.1 bits (Wen et al., TernGrad, NeurIPS 2017)
 *   natural            the power of two below or above, at random: 8.1 bits (Horvath et al., Natural Compression, 2019)
 *   sharedint          integers with one scale for all ranks, whose sum all_reduce makes as of any integers: 8.1 bits.
 *                      wire=int8 (of at most 42 ranks) or int16. The P ranks share its levels, 127 / P on each side, so the error
 *                      grows with P squared (Li et al., THC, NSDI 2024; Mishchenko et al., IntSGD, ICLR 2022). ranks=1: of
 *                      images, how many ranks share the levels
 *   topk               the largest ratio=0.01 of the elements of each block, exactly, of equal ones those in front; the rest is 0
 *                      (Aji and Heafield, Sparse Communication, EMNLP 2017). A hundredth: .25 bits an element. The choice is by
 *                      block, not by tensor: one of large elements sends no more than its neighbour
 *   blocktopk          groups of group=32 adjacent elements, those of the largest norm
 *   leaderk            the elements that are the largest on one rank, another one from call to call: all send those, and all_reduce
 *                      sums them as of any vector (Chen et al., ScaleCom, NeurIPS 2020). values=bf16|fp32
 *   randomk            random elements, the same on all ranks in each call, with seed=0; with values=bf16 or fp32 all_reduce
 *                      sums them as of any vector
 *   lossless           every bit comes back: exponents are entropy-coded, by zstd. Of gradients in bf16 two thirds are left, of
 *                      fp32 five sixths. A plugin, there once a context has been made; level=0 to 19
 *   others             that plugins bring: struct weft_codec_ops in weft_plugin.h
 *
 *   block=128          elements that share a scale, a power of two from 32 to 2048; casts and MX have 32. Of topk,
 *                      blocktopk, leaderk, randomk, 16384: elements among which is chosen, 256 to 65536; shorter vectors are sent
 *                      as one
 *   values=fp16        of topk, blocktopk; of randomk, bf16: what is sent of an element. fp16: with a power of two as the
 *                      block's scale; fp32, bf16; int8: with a scale by the largest
 *   indices=packed     of topk, blocktopk, leaderk: places in the fewest bits, 8.6 each at a hundredth. u16: 16 bits each
 *   scale=bf16         of int8 to int2. fp32: scales are not rounded
 *   levels=symmetric   of int8 to int2. minmax: 2^bits levels from the least to the largest element of each block
 *   round=nearest      of int8 to int2, sharedint. stochastic: right on average. int2 needs levels=minmax for it
 *   hadamard=0         of int8 to int2. 1: each block is turned by random signs and a Hadamard transform before, so that the error
 *                      does not depend on the distribution
 *   seed=1             of what is random. Random bits are a function of seed, number of the collective, rank and place, the same on
 *                      every CPU: a run can be repeated
 *   ef=0               error feedback, what a rank keeps of a tensor from call to call; weft_call_options.tensor names the tensor:
 *                      1     what an image loses is added the next time (Seide et al., 1-bit SGD, Interspeech 2014)
 *                      loco  an average of what images lost is, with beta=0.8 of the old average (Xie et al., LoCo, 2024)
 *                      ef21  what changed since the last image is sent, and all keep what they have (Richtarik et al., EF21,
 *                            NeurIPS 2021)
 *                      dgc   momentum is gathered until it is sent: momentum=0.9, clip=0 (0: not; else of the norm that what all
 *                            ranks give may have: each gives at most its root of nranks-th part), warmup=0 (steps with 25, 6.25,
 *                            1.56, .4 % of the elements, of codecs with a ratio). The optimizer must have no momentum of its own.
 *                            What was sent begins with no momentum; with masking=0 (and bypass=never) it keeps its own: nearer
 *                            to an optimizer's momentum, as in Zheng et al., dist-EF-SGDM, NeurIPS 2019.
 *                            (Lin et al., Deep Gradient Compression, ICLR 2018)
 *                      ef21 and dgc are for all_reduce, of at most 63 ranks, and not for sharedint, leaderk and randomk as they are
 *                      summed; lossless takes only 1. None of them is for codecs whose error may be longer than the vector: qsgd,
 *                      terngrad, int2 with levels=minmax, int4 with round=stochastic and long blocks, sharedint with
 *                      round=stochastic
 *   min=0              bytes; shorter vectors are sent as they are
 *   bypass=auto        where plain data would arrive sooner it is sent, with what was lost before; never: not even then
 *                      (both are not for all_to_all_v, which is always coded: its ranks know only their own counts)
 *
 * Below 8 bits, and with topk and its like, use error feedback: without it training stalls. With ef=1, and with ef=dgc where
 * momentum is 0, what was sent and what is owed are together what was given. A block with a NaN or an infinity is NaN on all ranks,
 * where loss scalers see it; what is kept of it is not changed, but to rounding. So is one with a magnitude of 2^127 or more; with
 * hadamard=1, and of qsgd, of 2^116 or more, of fp16 of 65,520 or more.
 */
#ifndef WEFT_COMPRESS_H
#define WEFT_COMPRESS_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* See whether text names a codec that calls take.
 *
 * A program that reads it from its user can refuse it before the first call, with the same words.
 * @param codec  such as "int4:block=64,ef=1", with the parameters of calls; "none" and "" are no codec, and allowed
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  codec is NULL, no such codec or parameter, a value that is not allowed, or error feedback that the codec
 *                      cannot have; whether a collective can have it is known when it is called */
WEFT_API weft_status weft_codec_check(const char *codec);

/* How long the image of a vector is, at most where the codec's rate is variable.
 *
 * @param codec  such as "int4:block=64"; ef, min and bypass are of calls
 * @param count  elements
 * @param bytes  receives the length
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  codec or bytes is NULL, no such codec or parameter, or there is no such length */
WEFT_API weft_status weft_codec_bytes(const char *codec, size_t count, size_t *bytes);

/* How long this image is.
 *
 * As weft_codec_bytes, unless the codec's rate is variable: then the image says it.
 * @param codec  as it was encoded
 * @param image  from weft_codec_encode; its first 4 bytes are enough
 * @param count  elements
 * @param bytes  receives the length
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  an argument is NULL, no such codec or parameter
 *         WEFT_EPROTO  no image of count elements begins so */
WEFT_API weft_status weft_codec_image_bytes(const char *codec, const void *image, size_t count, size_t *bytes);

/* Encode a vector, as a compressed collective does.
 *
 * To look at what a codec does to data, and for programs that move images themselves. Results are the same bits on every CPU.
 * Cost: one pass over src, and over residual if there is one.
 * @param codec     such as "int4:block=64"
 * @param dtype     of src: WEFT_FLOAT32, WEFT_FLOAT16 or WEFT_BFLOAT16
 * @param src       count elements
 * @param residual  NULL, or count floats that are added before, and become what the image does not hold; of blocks that are not
 *                  finite they stay
 * @param image     receives weft_codec_bytes bytes, or as many as weft_codec_image_bytes says
 * @param capacity  bytes of image
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL   an argument is NULL, no such codec or parameter
 *         WEFT_ENOTSUP  another dtype
 *         WEFT_ENOMEM   of a codec of a variable rate
 *         WEFT_ETRUNC   the image may be longer than capacity */
WEFT_API weft_status weft_codec_encode(const char *codec, weft_dtype dtype, const void *src, float *residual, size_t count,
                                       void *image, size_t capacity);

/* Decode an image.
 *
 * Any bytes can be decoded, unless the codec's rate is variable.
 * @param codec  as it was encoded
 * @param image  from weft_codec_encode
 * @param bytes  of image
 * @param dtype  of dst: WEFT_FLOAT32, WEFT_FLOAT16 or WEFT_BFLOAT16, rounded to nearest even
 * @param dst    receives count elements
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL   an argument is NULL, no such codec or parameter, or the image of count elements has another length
 *         WEFT_ENOTSUP  another dtype
 *         WEFT_ENOMEM   of a codec of a variable rate
 *         WEFT_EPROTO   likewise: it is no image of count elements */
WEFT_API weft_status weft_codec_decode(const char *codec, const void *image, size_t bytes, weft_dtype dtype, void *dst,
                                       size_t count);

/* Receive one codec from weft_codec_list. Strings stay valid for the life of the process.
 *
 * @param arg      what weft_codec_list was given
 * @param codec    "int8", ...: what stands before the colon
 * @param summary  one line */
typedef void (*weft_codec_fn)(void *arg, const char *codec, const char *summary);

/* Visit every codec: those that are built in, then those of plugins that were loaded.
 *
 * Plugins are loaded by weft_context_create.
 * @param fn   called for each codec
 * @param arg  passed to fn
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  fn is NULL */
WEFT_API weft_status weft_codec_list(weft_codec_fn fn, void *arg);

/* A tensor of a batch. */
typedef struct weft_batch_item {
    const void *src; /* count elements; NULL if count is 0 */
    void *dst;       /* likewise; src: in place */
    size_t count;    /* the same on all ranks */
    uint64_t tensor; /* as in weft_call_options, the same on all ranks; 0: no number, which error feedback needs */
} weft_batch_item;

/* Reduce many tensors in one collective.
 *
 * For the gradients of many parameters: one collective has one latency. Each tensor is coded by itself, from a whole block of the
 * codec on, and has its own residual by its own number, however batches are made up. Tensors that are shorter than the codec's min=
 * are reduced as they are, in one collective beside that of the others. Without a codec all are reduced in one.
 * Cost: that of an all_reduce of all elements, and a copy of each tensor in and out.
 * In place: src of an item is its dst.
 * @param comm    the communicator
 * @param call    from WEFT_CALL_INIT: kind is WEFT_KIND_ALL_REDUCE; dtype, op and options are of all items, and what else it has
 *                stays as it is. Options name no tensor; an algorithm that they name is of what is coded, if something is
 * @param items   nitems tensors, in the same order on all ranks
 * @param nitems  may be 0
 * @param req     as for every operation
 * Ownership: call and items are read, and what src points to is copied, before this returns. What dst points to is the operation's
 *     until it completes.
 * Threads, Blocks: as every operation.
 * @return as every operation, and
 *         WEFT_EINVAL   call is NULL or has src, dst or count; items, src or dst of an item is NULL; no such codec; error feedback,
 *                       and an item without a number
 *         WEFT_EBUSY    the residual of a tensor is in use, or two items have the same number
 *         WEFT_ENOTSUP  another kind, or in a group */
WEFT_API weft_status weft_issue_batch(weft_comm *comm, const weft_call *call, const weft_batch_item *items, size_t nitems,
                                      weft_request **req);

/* How much memory the residuals of a communicator take.
 *
 * A residual takes memory for the elements that this rank keeps something of: of all_reduce in two shots all that it gives, and its
 * share of the sums.
 * @param comm   a communicator
 * @param bytes  receives the sum over all tensors, 0 if no call had error feedback
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL   comm is no communicator, or bytes is NULL
 *         WEFT_EABORTED another thread destroys the communicator */
WEFT_API weft_status weft_comm_residual_bytes(weft_comm *comm, size_t *bytes);

/* Forget what was lost of a tensor, or of all.
 *
 * When a tensor begins anew, with another size or another optimizer. All ranks call it: with ef=ef21 and linear codecs, ranks that
 * have compressed a tensor less often than others differ from them, and the next call fails with WEFT_EMISMATCH.
 * @param comm    a communicator
 * @param tensor  as in weft_call_options; 0: all of them
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL    comm is no communicator
 *         WEFT_ENOTFOUND tensor has no residual
 *         WEFT_EBUSY     an operation that uses it is in flight; nothing was forgotten
 *         WEFT_EABORTED  another thread destroys the communicator */
WEFT_API weft_status weft_comm_residual_clear(weft_comm *comm, uint64_t tensor);

/* Multiply what was lost of a tensor, or of all.
 *
 * When the loss scale changes, gradients do, and what is owed of earlier ones must change with them: by new scale / old scale.
 * All ranks call it.
 * Cost: two passes over the residuals.
 * @param comm    a communicator
 * @param tensor  as in weft_call_options; 0: all of them
 * @param factor  finite
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL    comm is no communicator, factor is not finite, or a value would become infinite; nothing was changed
 *         WEFT_ENOTFOUND tensor has no residual
 *         WEFT_EBUSY     an operation that uses it is in flight; nothing was changed
 *         WEFT_EABORTED  another thread destroys the communicator */
WEFT_API weft_status weft_comm_residual_scale(weft_comm *comm, uint64_t tensor, double factor);

/* List the tensors that have a residual here.
 *
 * @param comm      a communicator
 * @param tensors   receives their numbers, in ascending order; NULL: only count is wanted
 * @param capacity  numbers that tensors has room for
 * @param count     receives how many there are
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL   comm is no communicator, or count is NULL
 *         WEFT_ETRUNC   there are more than capacity; nothing was written
 *         WEFT_EABORTED another thread destroys the communicator */
WEFT_API weft_status weft_comm_residual_list(weft_comm *comm, uint64_t *tensors, size_t capacity, size_t *count);

/* Save what this rank keeps of a tensor, for a checkpoint.
 *
 * Each rank saves its own. The state is the same bytes on every machine, says of itself what it is, and has a checksum. A program
 * that loads it and goes on gets the same bits as one that was never interrupted.
 * Cost: one pass over the residual to learn bytes, another to save it.
 * @param comm      a communicator
 * @param tensor    as in weft_call_options
 * @param state     receives the state; NULL: only bytes is wanted
 * @param capacity  bytes of state
 * @param bytes     receives its length: at most a hundred, and 4 for each element from the first to the last that is not 0
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL    comm is no communicator, tensor is 0, or bytes is NULL
 *         WEFT_ENOTFOUND tensor has no residual
 *         WEFT_ETRUNC    the state is longer than capacity; nothing was written
 *         WEFT_EBUSY     an operation that uses the residual is in flight
 *         WEFT_EABORTED  another thread destroys the communicator */
WEFT_API weft_status weft_comm_residual_save(weft_comm *comm, uint64_t tensor, void *state, size_t capacity,
                                              size_t *bytes);

/* Add a saved state, times a factor, to what this rank keeps of a tensor, which is made if it keeps nothing.
 *
 * As many ranks as saved load what they saved, with factor 1. When there are more or fewer, what all of them owe stays the same if
 * each old state is loaded by one new rank: of M, rank r loads those of the old ranks r, r + M, r + 2M and so on, with factor 1 for
 * sums, and M / old ranks for averages. What a rank gets of blocks that it has nothing to do with goes where it belongs in the next
 * call. A new rank that gets none loads any with factor 0, so that all count the same steps. Clear the tensor before, unless it is
 * new. What ef=ef21 keeps goes back to the rank that saved it only; with others begin without it.
 * Cost: two passes over the state.
 * @param comm    a communicator, not necessarily of as many ranks as that which saved
 * @param tensor  as in weft_call_options
 * @param elems   of the tensor: a state of another one is refused; 0: as many as the state says, which may take memory for each
 * @param state   from weft_comm_residual_save; any bytes may be given
 * @param bytes   of state
 * @param factor  finite
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL   comm is no communicator, tensor is 0, state is NULL or no state (cut, damaged, of another version), factor
 *                       is not finite, a value would become infinite, what is kept of the tensor has another length or form, the
 *                       state is of another length than elems, or
 *                       the state is of ef=ef21 and another rank's; nothing was changed
 *         WEFT_ENOMEM   there is no memory for it
 *         WEFT_EBUSY    an operation that uses the residual is in flight
 *         WEFT_EABORTED another thread destroys the communicator */
WEFT_API weft_status weft_comm_residual_load(weft_comm *comm, uint64_t tensor, size_t elems, const void *state,
                                              size_t bytes, double factor);

#ifdef __cplusplus
}
#endif
#endif /* WEFT_COMPRESS_H */
