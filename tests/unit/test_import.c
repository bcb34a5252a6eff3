/* SPDX-License-Identifier: BSD-3-Clause */
/* Algorithms from files: those that tests/import/generate.py writes are proved, printed and read again; wrong ones and hostile
 * ones are refused with the place and the rule. */
#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "import/import.h"
#include "unit.h"

static char inputs[PATH_MAX];

/* Once: run the generator into a directory of our own. */
static int generated(void)
{
    static int done;
    const char *root = getenv("WEFT_SRCDIR"), *python = getenv("PYTHON");
    char command[2 * PATH_MAX];

    if (done)
        return done > 0;
    snprintf(inputs, sizeof inputs, "%.200s/weft-import-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    done = -1;
    if (!mkdtemp(inputs))
        return 0;
    snprintf(command, sizeof command, "'%s' '%s/tests/import/generate.py' '%s' >/dev/null", python ? python : "python3",
             root ? root : ".", inputs);
    done = system(command) == 0 ? 1 : -1;
    return done > 0;
}

static void remove_inputs(void)
{
    char command[PATH_MAX + 16];

    if (inputs[0] && snprintf(command, sizeof command, "rm -rf '%s'", inputs) > 0 && system(command))
        printf("# %s stays\n", inputs);
}

static weft_status import_input(const char *name, struct wi_import **import)
{
    char path[PATH_MAX + 64];
    const char *paths[] = {path};

    snprintf(path, sizeof path, "%s/%s", inputs, name);
    wi_fail_clear();
    return wi_import_files(paths, 1, import);
}

/* All ranks' texts, one after the other, are a file of weft's own. */
static void read_again(const struct wi_import *import)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    struct wi_import *again = NULL;

    for (int r = 0; r < import->nranks; r++)
        CU_ASSERT_EQUAL(wi_sched_print(import->scheds[r], f), WEFT_SUCCESS);
    fclose(f);
    weft_status st = wi_import_text("printed", text, bytes, &again);
    if (st)
        printf("# %s: %s\n", import->name, wi_fail_text());
    CU_ASSERT_EQUAL_FATAL(st, WEFT_SUCCESS);
    CU_ASSERT_EQUAL(again->format, WI_IMPORT_TEXT);
    CU_ASSERT_EQUAL(again->nranks, import->nranks);
    CU_ASSERT_EQUAL(again->coll, import->coll);
    for (int r = 0; r < import->nranks; r++) {
        CU_ASSERT_EQUAL(again->scheds[r]->nsteps, import->scheds[r]->nsteps);
        CU_ASSERT_EQUAL(again->scheds[r]->nblocks, import->scheds[r]->nblocks);
    }
    wi_import_free(again);
    free(text);
}

struct right {
    const char *file;
    enum wi_coll coll;
    int nranks, in_place, mapped, root;
    uint32_t nblocks, lanes, tmp;
};

static const struct right right[] = {
    {"right/all_reduce_ring.xml", WI_COLL_ALL_REDUCE, 4, 0, 0, 0, 4, 1, 4},
    {"right/all_reduce_ring_in_place.xml", WI_COLL_ALL_REDUCE, 4, 1, 0, 0, 4, 1, 4},
    {"right/all_reduce_two_rings.xml", WI_COLL_ALL_REDUCE, 4, 0, 0, 0, 8, 2, 7},
    {"right/all_reduce_rhd.xml", WI_COLL_ALL_REDUCE, 4, 1, 0, 0, 4, 2, 0},
    {"right/all_reduce_pairs.xml", WI_COLL_ALL_REDUCE, 4, 1, 0, 0, 4, 4, 9},
    {"right/all_reduce_reuse.xml", WI_COLL_ALL_REDUCE, 2, 0, 0, 0, 4, 3, 4},
    {"right/reduce_scatter_pairs.xml", WI_COLL_REDUCE_SCATTER, 4, 0, 0, 0, 1, 4, 3},
    {"right/reduce_scatter_pairs_cut.xml", WI_COLL_REDUCE_SCATTER, 3, 0, 0, 0, 2, 3, 4},
    {"right/reduce_scatter_ring.xml", WI_COLL_REDUCE_SCATTER, 4, 0, 0, 0, 1, 1, 1},
    {"right/all_gather_ring.xml", WI_COLL_ALL_GATHER, 4, 0, 0, 0, 1, 2, 0},
    {"right/all_gather_ring_cut.xml", WI_COLL_ALL_GATHER, 4, 0, 0, 0, 3, 2, 0},
    {"right/broadcast_chain.xml", WI_COLL_BROADCAST, 4, 0, 0, 0, 4, 2, 0},
    {"right/broadcast_chain_root.xml", WI_COLL_BROADCAST, 3, 0, 0, 1, 2, 1, 0},
    {"right/all_to_all.xml", WI_COLL_ALL_TO_ALL, 4, 0, 0, 0, 1, 4, 0},
    {"right/all_to_all_cut.xml", WI_COLL_ALL_TO_ALL, 3, 0, 0, 0, 2, 3, 0},
    {"right/deep_exchange.xml", WI_COLL_ALL_REDUCE, 2, 1, 0, 0, 2, 2, 2},
    {"right/deep_all_gather.xml", WI_COLL_ALL_GATHER, 4, 0, 0, 0, 3, 3, 9},
    {"right/deep_all_reduce.xml", WI_COLL_ALL_REDUCE, 4, 0, 0, 0, 8, 2, 16},
    {"right/deep_dependencies.xml", WI_COLL_ALL_REDUCE, 2, 0, 0, 0, 2, 3, 4},
    {"right/both_flags.xml", WI_COLL_ALL_REDUCE, 4, 0, 0, 0, 4, 1, 4},
    {"right/both_flags_copies.xml", WI_COLL_ALL_REDUCE, 2, 0, 0, 0, 4, 3, 4},
    {"right/both_flags_in_place_only.xml", WI_COLL_ALL_REDUCE, 4, 1, 0, 0, 4, 1, 4},
    {"right/both_flags_out_of_place_only.xml", WI_COLL_ALL_REDUCE, 2, 0, 0, 0, 1, 1, 0},
    {"right/all_reduce_pairs.json", WI_COLL_ALL_REDUCE, 4, 1, 1, 0, 4, 1, 0},
    {"right/all_reduce_pairs_blocks.json", WI_COLL_ALL_REDUCE, 6, 1, 1, 0, 6, 1, 0},
    {"right/all_reduce_rres.json", WI_COLL_ALL_REDUCE, 2, 1, 1, 0, 2, 1, 0},
    {"right/all_reduce_ring.json", WI_COLL_ALL_REDUCE, 4, 1, 1, 0, 4, 1, 3},
    {"right/all_gather.json", WI_COLL_ALL_GATHER, 4, 0, 1, 0, 1, 1, 0},
    {"right/all_gather_cut.json", WI_COLL_ALL_GATHER, 3, 0, 1, 0, 2, 1, 0},
    {"right/reduce_scatter.json", WI_COLL_REDUCE_SCATTER, 4, 0, 1, 0, 1, 2, 3},
    {"right/all_to_all.json", WI_COLL_ALL_TO_ALL, 4, 0, 1, 0, 1, 1, 0},
    {"right/broadcast_chain.json", WI_COLL_BROADCAST, 4, 0, 1, 0, 2, 1, 0},
};
#define NRIGHT (sizeof(right) / sizeof(right[0]))

static void check_right(const struct right *w)
{
    struct wi_import *import = NULL;
    weft_status st = import_input(w->file, &import);

    if (st) {
        printf("# %s\n", wi_fail_text());
        CU_FAIL("refused");
        return;
    }
    const struct wi_sched *s = import->scheds[0];
    CU_ASSERT_EQUAL(import->coll, w->coll);
    CU_ASSERT_EQUAL(import->nranks, w->nranks);
    CU_ASSERT_EQUAL(import->in_place, w->in_place);
    CU_ASSERT_EQUAL(import->root, w->root);
    CU_ASSERT_EQUAL(s->mapped, w->mapped);
    CU_ASSERT_EQUAL(s->nblocks, w->nblocks);
    CU_ASSERT_EQUAL(s->nlanes, w->lanes);
    if (s->buf_blocks[WI_TMP] != w->tmp)
        printf("# %s: %u blocks of tmp, wanted %u\n", w->file, s->buf_blocks[WI_TMP], w->tmp);
    CU_ASSERT_EQUAL(s->buf_blocks[WI_TMP], w->tmp);
    CU_ASSERT_EQUAL(wi_sched_check((const struct wi_sched *const *)import->scheds, import->nranks, 0), WEFT_SUCCESS);
    read_again(import);
    wi_import_free(import);
}

static void right_ones(void)
{
    CU_ASSERT_FATAL(generated());
    for (size_t i = 0; i < NRIGHT; i++)
        check_right(&right[i]);
}

/* ---- Wrong ones ---- */

struct wrong {
    const char *file, *place, *rule;
};

static const struct wrong wrong[] = {
    {"wrong/mismatched_sends.xml", ".xml:33: refused:", "rank 3 never receives this on channel 0"},
    {"wrong/mismatched_counts.xml",
     ".xml:18: refused:", "sends 1 blocks, but rank 3 lane 0 step 1 (recv_reduce) receives 2"},
    {"wrong/missing_contribution.xml", ".xml: refused:", "lacks the contribution of rank 1"},
    {"wrong/deadlock.xml", ".xml:4: refused:", "deadlock: waits for a message of rank 3"},
    {"wrong/deep_order.xml", ".xml:6: refused:", "combines block 1 with block 0"},
    {"wrong/deep_stuck.xml", ".xml:", "deadlock: waits for"},
    {"wrong/circle.xml", ".xml: refused:", "the dependencies of 4 steps go round in a circle"},
    {"wrong/out_of_bounds.xml", ".xml:40:", "out of bounds: chunks 4 to 4 of o, gpu 3 has 4"},
    {"wrong/out_of_bounds_scratch.xml", ".xml:5:", "out of bounds: chunks 3 to 3 of s, gpu 0 has 3"},
    {"wrong/scratch_race.xml",
     ".xml:58: refused:", "race: reads tmp[1:1], and nothing orders that after rank 2 lane 1"},
    {"wrong/scratch_race_writes.xml", ".xml:29: refused:", "race: writes tmp[0:1]"},
    {"wrong/unwritten.xml", ".xml:57: refused:", "reads block 0 of tmp[0:1], which nothing has written"},
    {"wrong/twice.xml", ".xml:6: refused:", "combines block 3 with block 2"},
    {"wrong/input_written.xml", ".xml:10: refused:", "src is written"},
    {"wrong/same_channel.xml", ".xml:7: refused:", "lane 0 sends to rank 1 on channel 0 too"},
    {"wrong/mismatched_signals.json", ".ops[7]: refused:", "mismatched signals: rank 2 never waits for this one"},
    {"wrong/mismatched_waits.json", ".ops[8]: refused:", "mismatched signals: waits for signal 1 of rank 3"},
    {"wrong/missing_contribution.json", ".json: refused:", "lacks the contribution of rank 3"},
    {"wrong/deadlock.json", "gpus[0].threadblocks[0].ops[0]: refused:", "deadlock: waits for a signal of rank 1"},
    {"wrong/deadlock_barrier.json", ".ops[5]: refused:", "deadlock: barrier 0 is for 3 thread blocks, 2 come to it"},
    {"wrong/deadlock_semaphore.json",
     "gpus[1].threadblocks[1].ops[0]: refused:", "deadlock: semaphore 0 is acquired 1 times"},
    {"wrong/out_of_bounds.json", "gpus[0].threadblocks[0].ops[2]:", "out of bounds: chunks 4 to 4 of i of gpu 0"},
    {"wrong/out_of_bounds_scratch.json",
     "gpus[0].threadblocks[0].ops[0]:", "out of bounds: chunks 3 to 3 of s of gpu 1"},
    {"wrong/scratch_race.json", "gpus[2].threadblocks[1].ops[0]: refused:", "race: reads tmp[0:1]"},
    {"wrong/scratch_race_writes.json", "refused:", "race: writes tmp@2[0:1]"},
    {"wrong/early_put.json", ".ops[1]: refused:", "uses dst@1[0:1], but no signal says that rank 1 has begun"},
    {"wrong/late_get.json", "refused:", "race: may use memory of rank 0 after that rank has returned"},
    {"wrong/packet.json",
     "gpus[1].threadblocks[0].ops[2]:", "op \"ppkt\" of gpu 1, thread block 0, index 2 is not expressible"},
    {"wrong/multimem.json",
     "gpus[1].threadblocks[0].ops[2]:", "op \"glres\" of gpu 1, thread block 0, index 2 is not expressible"},
    {"wrong/unknown_op.json",
     "gpus[1].threadblocks[0].ops[2]:", "op \"frobnicate\" of gpu 1, thread block 0 is not known"},
    {"wrong/block_group.json", "gpus[0].threadblocks[0].ops[2]:", "2 thread blocks share it"},
    {"wrong/switch.json", "gpus[0]:", "channels of type \"switch\" (multimem) are not expressible"},
};

/* Every file that the generator writes is in one of the tables. */
static void all_tested(const char *folder)
{
    char path[PATH_MAX + 64];
    struct dirent *entry;

    snprintf(path, sizeof path, "%s/%s", inputs, folder);
    DIR *dir = opendir(path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
    while ((entry = readdir(dir)) != NULL) {
        int found = entry->d_name[0] == '.';
        snprintf(path, sizeof path, "%s/%.200s", folder, entry->d_name);
        for (size_t i = 0; i < NRIGHT; i++)
            found |= !strcmp(right[i].file, path);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
            found |= !strcmp(wrong[i].file, path);
        if (!found)
            printf("# %s is not tested\n", path);
        CU_ASSERT(found);
    }
    closedir(dir);
}

/* What is flagged for calls in place and others is two programs, or one and why there is no other. */
static void both_flags(void)
{
    static const struct {
        const char *file, *says; /* NULL: both are proved */
        int in_place;
    } files[] = {
        {"right/both_flags.xml", NULL, 0},
        {"right/both_flags_copies.xml", NULL, 0}, /* what is copied onto itself in place is left out */
        {"right/both_flags_in_place_only.xml", ".xml:7: refused: schedule all_reduce/ring of rank 0/4: lane 0 step 3",
         1},
        {"right/both_flags_out_of_place_only.xml",
         ".xml:6: refused: schedule all_reduce/taken_first of rank 0/2: lane 0 step 2", 0},
        {"right/all_reduce_ring.xml", "", 0}, /* not flagged so */
    };

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct wi_import *import = NULL;
        CU_ASSERT_EQUAL_FATAL(import_input(files[i].file, &import), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(import->in_place, files[i].in_place);
        CU_ASSERT_EQUAL(import->in_place_variant != NULL, !files[i].says);
        if (!strstr(import->variant_refused, files[i].says ? files[i].says : ""))
            printf("# %s: \"%s\"\n", files[i].file, import->variant_refused);
        CU_ASSERT(strstr(import->variant_refused, files[i].says ? files[i].says : "") != NULL);
        CU_ASSERT_EQUAL(import->variant_refused[0] != 0, files[i].says && *files[i].says);
        if (import->in_place_variant) {
            CU_ASSERT(import->in_place_variant->in_place && !import->in_place_variant->in_place_variant &&
                      import->in_place_variant->nranks == import->nranks);
            CU_ASSERT_EQUAL(
                wi_sched_check((const struct wi_sched *const *)import->in_place_variant->scheds, import->nranks, 0),
                WEFT_SUCCESS);
            read_again(import->in_place_variant);
        }
        wi_import_free(import);
    }
}

static void none_forgotten(void)
{
    CU_ASSERT_FATAL(generated());
    all_tested("right");
    all_tested("wrong");
}

static void wrong_ones(void)
{
    CU_ASSERT_FATAL(generated());
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct wi_import *import = NULL;
        weft_status st = import_input(wrong[i].file, &import);
        int as_wanted = st == WEFT_EINVAL && !import && strstr(wi_fail_text(), wrong[i].place) &&
                        strstr(wi_fail_text(), wrong[i].rule) && strstr(wi_fail_text(), wrong[i].file);
        if (!as_wanted)
            printf("# %s: wanted \"%s\" and \"%s\", found %d \"%s\"\n", wrong[i].file, wrong[i].place, wrong[i].rule,
                   st, wi_fail_text());
        CU_ASSERT(as_wanted);
        wi_import_free(import);
    }
}

/* ---- Hostile texts ---- */

static void refused(const char *text, size_t bytes, const char *why)
{
    struct wi_import *import = NULL;

    wi_fail_clear();
    weft_status st = wi_import_text("FILE", text, bytes, &import);
    int as_wanted = st < 0 && !import && strstr(wi_fail_text(), why) && strstr(wi_fail_text(), "FILE");
    if (!as_wanted)
        printf("# wanted \"%s\", found %d \"%s\"\n", why, st, wi_fail_text());
    CU_ASSERT(as_wanted);
    wi_import_free(import);
}

#define ALGO "<algo name=\"a\" ngpus=\"1\" nchunksperloop=\"1\" coll=\"allreduce\">"
#define GPU "<gpu id=\"0\" i_chunks=\"1\" o_chunks=\"1\" s_chunks=\"0\">"
#define TB "<tb id=\"0\" send=\"-1\" recv=\"-1\" chan=\"0\">"
#define STEP(type, more) "<step s=\"0\" type=\"" type "\" depid=\"-1\" deps=\"-1\" " more "/>"

static void broken_xml(void)
{
    static const char *const texts[][2] = {
        {"<!DOCTYPE a [<!ENTITY x \"y\">]><algo/>", "FILE:1: a document type declaration; entities are not expanded"},
        {"<algo", "FILE:1: unclosed token"},
        {"<algo>\n</gpu>", "FILE:1: <algo> lacks ngpus"},
        {"<plan/>", "FILE:1: <plan> where <algo> belongs"},
        {"<algo ngpus=\"0\"/>", "ngpus must be a number from 1 to 1024, found \"0\""},
        {"<algo ngpus=\"99999999999999999999\"/>", "ngpus must be a number"},
        {"<algo ngpus=\"1\" nchunksperloop=\"1\" coll=\"gossip\"/>", "collective \"gossip\" is not one that weft has"},
        {ALGO "</algo>", "ngpus is 1, but there is no gpu 0"},
        {ALGO "\n" GPU "</gpu>\n" GPU "</gpu></algo>", "FILE:3: gpu 0 stands in line 2 already"},
        {ALGO GPU TB "</tb>" TB "</tb></gpu></algo>", "thread block 0 of gpu 0 stands in line 1 already"},
        {ALGO GPU "<tb id=\"0\" send=\"0\" recv=\"-1\" chan=\"0\"/></gpu></algo>", "has its own gpu as a peer"},
        {ALGO GPU TB STEP("ra", "cnt=\"1\"") "</tb></gpu></algo>", "step type \"ra\" of gpu 0, thread block 0, step 0"},
        {ALGO GPU TB STEP("cpy", "cnt=\"0\"") "</tb></gpu></algo>", "cnt must be a number from 1"},
        {ALGO GPU TB STEP("cpy", "cnt=\"1\" srcbuf=\"x\"") "</tb></gpu></algo>",
         "srcbuf must be i, o or s, found \"x\""},
        {ALGO GPU TB "<step s=\"1\"/></tb></gpu></algo>", "step s=\"0\" expected, found 1"},
        {ALGO GPU TB "<step s=\"0\" type=\"nop\" depid=\"0\" deps=\"-1\"/></tb></gpu></algo>",
         "both or neither must be -1"},
        {ALGO GPU TB "<step s=\"0\" type=\"nop\" depid=\"3\" deps=\"7\"/></tb></gpu></algo>",
         "depends on step 7 of thread block 3, which gpu 0 does not have"},
        {ALGO GPU TB "<step s=\"0\" type=\"nop\" depid=\"0\" deps=\"0\"/></tb></gpu></algo>",
         "depends on a step of its own lane"},
        {ALGO GPU "text</gpu></algo>", "text between the elements"},
        {"<algo name=\"a\" ngpus=\"1\" nchunksperloop=\"7\" coll=\"allreduce\">" GPU "</gpu></algo>",
         "nchunksperloop is 7, the gpus' chunks mean 1"},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        refused(texts[i][0], strlen(texts[i][0]), texts[i][1]);
}

#define PLAN(gpus) "{\"name\": \"p\", \"collective\": \"allreduce\", \"inplace\": false, \"gpus\": [" gpus "]}"
#define CHUNKS "\"input_chunks\": 1, \"output_chunks\": 1, \"scratch_chunks\": 0"
#define OPS(ops) PLAN("{\"id\": 0, " CHUNKS ", \"threadblocks\": [{\"id\": 0, \"ops\": [" ops "]}]}")

static void broken_json(void)
{
    static const char *const texts[][2] = {
        {"{", "FILE:1: string or '}' expected"},
        {"{\n\"a\": 1,\n\"a\": 2}", "FILE:3: duplicate object key"},
        {"{}", "FILE: collective \"\" is not one that weft has"},
        {PLAN(""), "0 gpus, must be 1 to 1024"},
        {PLAN("{\"id\": 1}"), "FILE: gpus[0]: \"id\" must be a number from 0 to 0"},
        {PLAN("{\"id\": 0}"), "gpus[0]: lacks \"input_chunks\""},
        {PLAN("{\"id\": 0, " CHUNKS "}"), "gpus[0]: lacks \"threadblocks\""},
        {PLAN("{\"id\": 0, " CHUNKS "}, {\"id\": 0, " CHUNKS "}"), "gpus[1]: gpu 0 is gpus[0] already"},
        {OPS("{}"), "gpus[0].threadblocks[0].ops[0]: op \"\" of gpu 0"},
        {OPS("7"), "ops[0]: op \"\" of gpu 0"},
        {OPS("{\"name\": \"copy\"}"), "ops[0]: lacks \"dst_buff\""},
        {OPS("{\"name\": \"nop\"}, {\"name\": \"copy\", \"dst_buff\": []}"), "ops[1]: 0 buffers in \"dst_buff\""},
        {OPS("{\"name\": \"copy\", \"dst_buff\": [{\"index\": -1}]}"), "\"index\" must be a number from 0"},
        {OPS("{\"name\": \"copy\", \"dst_buff\": [{\"index\": 0, \"size\": 1, \"type\": \"q\"}]}"),
         "must be \"i\", \"o\" or \"s\""},
        {OPS("{\"name\": \"put\", \"dst_buff\": [{\"index\": 0, \"size\": 1, \"buffer_id\": 0}]}"),
         "out of bounds: number 0 of the thread block's remote_buffer_refs, there are 0"},
        {OPS("{\"name\": \"signal\", \"channel_ids\": [0]}"), "number 0 of the thread block's channels, there are 0"},
        {OPS("{\"name\": \"signal\", \"channel_ids\": [0], \"channel_type\": \"switch\"}"), "multimem"},
        {OPS("{\"name\": \"sem_acquire\", \"semaphore_ids\": [0]}"), "out of bounds: semaphore 0, gpu 0 has 0"},
        {OPS("{\"name\": \"pipeline\", \"ops\": [{\"name\": \"pipeline\", \"ops\": []}]}"),
         "ops[0].ops[0]: a pipeline within"},
        {OPS("{\"name\": \"nop\", \"tbg_info\": {\"tb_id\": 0, \"tbg_size\": 3}}"), "3 thread blocks share it"},
        {OPS("{\"name\": \"nop\"}"), "result dst[0] is never written"},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        refused(texts[i][0], strlen(texts[i][0]), texts[i][1]);
}

/* `part` n times; a # in it is the turn's number. */
static char *repeated(const char *head, const char *part, size_t n, const char *tail, size_t *bytes)
{
    const char *mark = strchr(part, '#');
    int before = mark ? (int)(mark - part) : (int)strlen(part);
    char *text = NULL;
    FILE *f = open_memstream(&text, bytes);

    fputs(head, f);
    for (size_t i = 0; i < n; i++) {
        fprintf(f, "%.*s", before, part);
        if (mark)
            fprintf(f, "%zu%s", i, mark + 1);
    }
    fputs(tail, f);
    fclose(f);
    return text;
}

/* Work beyond every use is refused before it is done. */
static void too_much(void)
{
    size_t bytes;
    char *text =
        repeated("<algo name=\"a\" ngpus=\"1\" nchunksperloop=\"65536\" coll=\"allreduce\">"
                 "<gpu id=\"0\" i_chunks=\"65536\" o_chunks=\"65536\" s_chunks=\"0\">" TB,
                 "<step s=\"#\" type=\"cpy\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"65536\" "
                 "depid=\"-1\" deps=\"-1\"/>",
                 1000, "</tb></gpu></algo>", &bytes);
    refused(text, bytes, "too much to prove");
    free(text);
    text = repeated(ALGO GPU TB, "<step s=\"#\" type=\"nop\" depid=\"-1\" deps=\"-1\"/>", 70000, "</tb></gpu></algo>",
                    &bytes);
    refused(text, bytes, "more than 65536 steps");
    free(text);
    text = repeated("{\"a\": ", "[", 10000, "", &bytes);
    refused(text, bytes, "maximum parsing depth");
    free(text);
    text = repeated(ALGO, "<gpu>", 100, "", &bytes);
    refused(text, bytes, "lacks id");
    free(text);
    text = calloc(1, WI_IMPORT_MAX_BYTES + 1);
    refused(text, WI_IMPORT_MAX_BYTES + 1, "bytes, at most");
    free(text);
}

/* ---- weft's own texts ---- */

#define HEAD(rank) \
    "weft-schedule 1\ncoll broadcast algo t rank " #rank " nranks 2 root 0 in_place 1 blocks 1 tmp 0 ll 0\n"
#define ROOT HEAD(0) "lane 0 send 1 recv - chan 0\n0 send dst[0:1]\nend\n"
#define LEAF HEAD(1) "lane 0 send - recv 0 chan 0\n0 recv dst[0:1]\nend\n"
#define STAGED                                                                                       \
    "weft-schedule 2\ncoll broadcast algo t rank 1 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n" \
    "lane 0 send - recv 0 chan 0\n0 recv dst[0:1]\nslots 0\nend\n"

static void own_texts(void)
{
    struct wi_import *import = NULL;
    const char *both = "# two\n" ROOT "\n" LEAF "\n# end\n";

    CU_ASSERT_EQUAL_FATAL(wi_import_text("FILE", both, strlen(both), &import), WEFT_SUCCESS);
    CU_ASSERT_STRING_EQUAL(import->name, "t");
    CU_ASSERT_EQUAL(import->in_place, 1);
    wi_import_free(import);
    refused(ROOT, strlen(ROOT), "no schedule of rank 1 of 2");
    refused(ROOT ROOT, strlen(ROOT ROOT), "a second schedule of rank 0");
    refused(ROOT "oops\n", strlen(ROOT "oops\n"), "after line 5: schedule text line 1");
    refused(ROOT HEAD(1) "end\n", strlen(ROOT HEAD(1) "end\n"), "FILE: refused: schedule broadcast/t of rank 0/2");
    refused(STAGED, strlen(STAGED), "the schedule of rank 1 has mapped stages");
    refused("", 0, "is empty");
}

static const struct wt_case cases[] = {
    {"right files are proved, printed, read again", right_ones},
    {"no file is forgotten", none_forgotten},
    {"both flags", both_flags},
    {"wrong files are refused by place and rule", wrong_ones},
    {"broken XML", broken_xml},
    {"broken JSON", broken_json},
    {"too much", too_much},
    {"weft's own texts", own_texts},
};

int main(int argc, char **argv)
{
    int failed = wt_unit_main("import", cases, sizeof(cases) / sizeof(cases[0]), argc, argv);

    remove_inputs();
    return failed;
}
