/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules with images: what the checker refuses of them, what form they must have, and their text. */
#include "sched_programs.h"

struct coded {
    const char *name, *coll;
    int blocks, tmp, in_place;
    const char *head;     /* "pack 2 lossy 1" */
    const char *ranks[2]; /* images and lanes */
    const char *text;     /* of the refusal; NULL: right */
};

static weft_status parse(const struct coded *p, int rank, struct wi_sched **s)
{
    char text[4096];
    int n = snprintf(
        text, sizeof text,
        "weft-schedule 1\ncoll %s algo test rank %d nranks 2 root 0 in_place %d blocks %d tmp %d ll 0 %s\n%send\n",
        p->coll, rank, p->in_place, p->blocks, p->tmp, p->head, p->ranks[rank]);

    return wi_sched_parse(text, (size_t)n, s);
}

/* Refused by the checker, or by the form check of one of both. */
static void run(const struct coded *p)
{
    struct wi_sched *s[2] = {NULL};
    weft_status st = WEFT_SUCCESS;

    wi_fail_clear();
    for (int r = 0; r < 2 && st == WEFT_SUCCESS; r++)
        st = parse(p, r, &s[r]);
    if (st == WEFT_SUCCESS)
        st = check(s, 2, WI_SCHED_ALIKE);
    if (p->text ? st != WEFT_EINVAL || !strstr(wi_fail_text(), p->text) : st != WEFT_SUCCESS) {
        printf("# %s: wanted \"%s\", found %d \"%s\"\n", p->name, p->text ? p->text : "success", st, wi_fail_text());
        CU_FAIL("coded");
    }
    samples_put(s, 2);
}

static void run_all(const struct coded *programs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        run(&programs[i]);
}
#define RUN_ALL(programs) run_all(programs, sizeof(programs) / sizeof((programs)[0]))

#define IMAGES "image 0 of src 0 residual 0\nimage 1 of dst 0\n"
#define ENCODE "0 copy pack[0:1] <- src[0:1]\n"
#define SWAP "1 send pack[0:1]\n2 recv pack[1:1]\n"
#define SUM0 "3 reduce dst[0:1] <- pack[0:1] pack[1:1] final\n"
#define SUM1 "3 reduce dst[0:1] <- pack[1:1] pack[0:1] final\n"
#define RIGHT0 IMAGES PAIR0 ENCODE SWAP SUM0
#define RIGHT1 IMAGES PAIR1 ENCODE SWAP SUM1

static void images_are_no_data(void)
{
    static const struct coded programs[] = {
        {"right", "all_reduce", 1, 0, 0, "pack 2 lossy 1", {RIGHT0, RIGHT1}, NULL},
        {"plain as an image",
         "all_reduce",
         1,
         0,
         0,
         "pack 2 lossy 1",
         {RIGHT0, IMAGES PAIR1 ENCODE "1 send src[0:1]\n2 recv pack[1:1]\n" SUM1},
         "rank 0/2: lane 0 step 2 (recv): receives plain data as an image"},
        {"an image as plain",
         "all_reduce",
         1,
         1,
         0,
         "pack 2 lossy 1",
         {RIGHT0,
          IMAGES PAIR1 ENCODE "1 send pack[0:1]\n2 recv tmp[0:1]\n3 reduce dst[0:1] <- tmp[0:1] pack[0:1] final\n"},
         "rank 1/2: lane 0 step 2 (recv): receives an image as plain data"},
        {"an image into a sum",
         "all_reduce",
         1,
         0,
         0,
         "pack 2 lossy 1",
         {RIGHT0, IMAGES PAIR1 ENCODE "1 send pack[0:1]\n2 recv_reduce dst[0:1] <- src[0:1] final\n"},
         "rank 1/2: lane 0 step 2 (recv_reduce): receives an image as plain data"},
        {"an image of another length",
         "all_reduce",
         2,
         0,
         0,
         "pack 1 lossy 1",
         {"image 0 of src 1\n" LOCAL "0 copy pack[0:1] <- src[0:1]\n", "image 0 of src 1\n" LOCAL "0 nop\n"},
         "stores block 0 of the vector in pack[0:1], which is as long as block 1"},
        {"nobody encoded it",
         "all_reduce",
         1,
         0,
         0,
         "pack 2 lossy 1",
         {IMAGES PAIR0 "0 send pack[0:1]\n1 recv pack[1:1]\n", RIGHT1},
         "reads block 0 of pack[0:1], which nothing has written"},
    };

    RUN_ALL(programs);
}

/* The second time a rank adds what it owes, that is gone. */
static void residuals_are_used_once(void)
{
    static const struct coded programs[] = {
        {"twice",
         "all_reduce",
         1,
         0,
         0,
         "pack 3 lossy 1",
         {IMAGES "image 2 of dst 0 residual 0\n" PAIR0 ENCODE
                 "1 copy pack[2:1] <- src[0:1]\n2 send pack[0:1]\n3 recv pack[1:1]\n"
                 "4 reduce dst[0:1] <- pack[2:1] pack[1:1] final\n",
          RIGHT1},
         "lane 0 step 1 (copy): residual 0 of block 0 is used for a second time"},
        {"each its own",
         "all_reduce",
         1,
         0,
         0,
         "pack 3 lossy 1",
         {IMAGES "image 2 of dst 0 residual 1\n" PAIR0 ENCODE
                 "1 copy pack[2:1] <- src[0:1]\n2 send pack[0:1]\n3 recv pack[1:1]\n"
                 "4 reduce dst[0:1] <- pack[0:1] pack[1:1] final\n",
          IMAGES "image 2 of dst 0\n" PAIR1 ENCODE SWAP SUM1},
         NULL},
    };

    RUN_ALL(programs);
}

/* Otherwise ranks would get other bits. */
static void all_have_the_same_images(void)
{
    static const struct coded programs[] = {
        {"its own is exact",
         "all_reduce",
         1,
         0,
         0,
         "pack 2 lossy 1",
         {IMAGES PAIR0 ENCODE SWAP "3 reduce dst[0:1] <- src[0:1] pack[1:1] final\n", RIGHT1},
         "groups the operands otherwise than that of rank 0"},
        {"the maker keeps what it has made it of",
         "all_reduce",
         1,
         0,
         0,
         "pack 1 lossy 1",
         {"image 0 of dst 0\n" PAIR0
          "0 recv_reduce dst[0:1] <- src[0:1] final\n1 copy pack[0:1] <- dst[0:1]\n2 send pack[0:1]\n",
          "image 0 of dst 0\n" PAIR1 "0 send src[0:1]\n1 recv pack[0:1]\n2 copy dst[0:1] <- pack[0:1]\n"},
         "groups the operands otherwise than that of rank 0"},
        {"it takes what the image holds",
         "all_reduce",
         1,
         1,
         0,
         "pack 1 lossy 1",
         {"image 0 of dst 0\n" PAIR0
          "0 recv tmp[0:1]\n1 reduce pack[0:1] dst[0:1] <- src[0:1] tmp[0:1] final\n2 send pack[0:1]\n",
          "image 0 of dst 0\n" PAIR1 "0 send src[0:1]\n1 recv pack[0:1]\n2 copy dst[0:1] <- pack[0:1]\n"},
         NULL},
        {"two ranks make images of equal sums",
         "all_reduce",
         1,
         1,
         0,
         "pack 1 lossy 1",
         {"image 0 of dst 0 residual 1\n" PAIR0
          "0 send src[0:1]\n1 recv tmp[0:1]\n2 reduce pack[0:1] dst[0:1] <- src[0:1] tmp[0:1] final\n",
          "image 0 of dst 0 residual 1\n" PAIR1
          "0 send src[0:1]\n1 recv tmp[0:1]\n2 reduce pack[0:1] dst[0:1] <- tmp[0:1] src[0:1] final\n"},
         "groups the operands otherwise than that of rank 0"},
    };

    RUN_ALL(programs);
}

static void losses_are_counted(void)
{
    static const struct coded programs[] = {
        {"more than it says",
         "all_reduce",
         1,
         0,
         0,
         "pack 3 lossy 1",
         {IMAGES "image 2 of dst 0\n" PAIR0 ENCODE SWAP
                 "3 reduce pack[2:1] dst[0:1] <- pack[0:1] pack[1:1] final\n4 send pack[2:1]\n",
          IMAGES "image 2 of dst 0\n" PAIR1 ENCODE SWAP "3 recv pack[2:1]\n4 copy dst[0:1] <- pack[2:1]\n"},
         "rank 0/2: result dst[0] has been encoded 2 times, where the schedule says 1"},
        {"as it says",
         "all_reduce",
         1,
         0,
         0,
         "pack 3 lossy 2",
         {IMAGES "image 2 of dst 0\n" PAIR0 ENCODE SWAP
                 "3 reduce pack[2:1] dst[0:1] <- pack[0:1] pack[1:1] final\n4 send pack[2:1]\n",
          IMAGES "image 2 of dst 0\n" PAIR1 ENCODE SWAP "3 recv pack[2:1]\n4 copy dst[0:1] <- pack[2:1]\n"},
         NULL},
        {"less than it says",
         "all_reduce",
         1,
         0,
         0,
         "pack 2 lossy 2",
         {RIGHT0, RIGHT1},
         "its results have been encoded 1 times at most, where it says 2"},
        {"none that it tells of",
         "all_reduce",
         1,
         0,
         0,
         "pack 2 lossy 0",
         {RIGHT0, RIGHT1},
         "it has images, and says that it loses nothing"},
    };

    RUN_ALL(programs);
}

static void forms(void)
{
    static const struct coded programs[] = {
        {"two images at once",
         "all_reduce",
         1,
         0,
         0,
         "pack 2 lossy 1",
         {IMAGES LOCAL "0 copy pack[0:1] pack[1:1] <- src[0:1]\n", ""},
         "2 destinations are images, one step makes one"},
        {"moved and decoded",
         "all_reduce",
         1,
         0,
         0,
         "pack 2 lossy 1",
         {IMAGES LOCAL ENCODE "1 copy pack[1:1] dst[0:1] <- pack[0:1]\n", ""},
         "an image is moved and decoded in one step"},
        {"received into a sum",
         "all_reduce",
         1,
         0,
         0,
         "pack 2 lossy 1",
         {IMAGES PAIR0 "0 recv_reduce pack[0:1] <- src[0:1]\n", ""},
         "what is received into a sum is no image"},
        {"of another rank",
         "all_reduce",
         1,
         0,
         0,
         "pack 2 lossy 1",
         {IMAGES LOCAL "0 copy dst[0:1] <- pack@1[0:1]\n", ""},
         "no image in a mapped schedule, or of another rank"},
        {"with signals",
         "all_reduce",
         1,
         0,
         0,
         "pack 2 lossy 1",
         {IMAGES LOCAL "0 copy pack[0:1] <- src[0:1]\n1 signal 0\n", ""},
         "no image in a mapped schedule, or of another rank"},
        {"past the end",
         "all_reduce",
         1,
         0,
         0,
         "pack 2 lossy 1",
         {IMAGES LOCAL "0 copy pack[2:1] <- src[0:1]\n", ""},
         "pack[2:1]: out of bounds, the buffer has 2 blocks"},
        {"of no block",
         "all_reduce",
         1,
         0,
         0,
         "pack 1 lossy 1",
         {"image 0 of src 1\n" LOCAL "0 nop\n", ""},
         "pack[0:1] is of src[1:1], which is out of bounds"},
        {"encoded onto itself",
         "all_reduce",
         1,
         0,
         1,
         "pack 1 lossy 1",
         {"image 0 of src 0\n" PAIR0 "0 copy pack[0:1] dst[0:1] <- src[0:1]\n1 send pack[0:1]\n",
          "image 0 of src 0\n" PAIR1 "0 recv pack[0:1]\n1 reduce dst[0:1] <- pack[0:1] src[0:1] final\n"},
         "rank 0/2: result dst[0] lacks the contribution of rank 1"}, /* its form is right */
    };

    RUN_ALL(programs);
}

/* ---- Text ---- */

static void text_round_trip(void)
{
    static const struct coded p = {"right", "all_reduce", 1, 0, 0, "pack 2 lossy 1", {RIGHT0, RIGHT1}, NULL};
    char *once = NULL, *again = NULL;
    struct wi_sched *s = NULL, *copy = NULL;
    size_t n = 0, m = 0;
    FILE *out;

    CU_ASSERT_EQUAL_FATAL(parse(&p, 0, &s), WEFT_SUCCESS);
    out = open_memstream(&once, &n);
    CU_ASSERT_EQUAL(wi_sched_print(s, out), WEFT_SUCCESS);
    fclose(out);
    CU_ASSERT_PTR_NOT_NULL(strstr(once, " ll 0 pack 2 lossy 1\nimage 0 of src 0 residual 0\nimage 1 of dst 0\nlane 0"));
    CU_ASSERT_EQUAL_FATAL(wi_sched_parse(once, n, &copy), WEFT_SUCCESS);
    CU_ASSERT(copy->lossy == 1 && copy->packs[0].residual == 0 && copy->packs[1].residual == WI_NO_RESIDUAL);
    out = open_memstream(&again, &m);
    CU_ASSERT_EQUAL(wi_sched_print(copy, out), WEFT_SUCCESS);
    fclose(out);
    CU_ASSERT_STRING_EQUAL(once, again);
    wi_sched_put(s);
    wi_sched_put(copy);
    free(once);
    free(again);
}

static void bad_text(void)
{
    static const struct {
        const char *head, *images, *text;
    } cases[] = {
        {"pack 1", "", "line 2: \"lossy\" expected"},
        {"pack x lossy 1", "", "line 2: pack must be a number from 0 to 1048576, found x"},
        {"pack 1 lossy 1 more", "", "line 2: more is too much"},
        {"", "image 0 of src 0\n", "line 3: an image, and the head names no pack"},
        {"pack 1 lossy 1", "image 1 of src 0\n", "line 3: image must be a number from 0 to 0, found 1"},
        {"pack 1 lossy 1", "image 0 of tmp 0\n", "line 3: src or dst expected, found tmp"},
        {"pack 1 lossy 1", "image 0 of src 0 residual 2\n", "line 3: residual must be a number from 0 to 1, found 2"},
        {"pack 1 lossy 1", "image 0 of src 0 residue 1\n", "line 3: residue is not understood here"},
        {"pack 1 lossy 1", LOCAL "image 0 of src 0\n", "line 4: an image after the first lane"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct coded p = {"", "all_reduce", 1, 0, 0, cases[i].head, {cases[i].images, ""}, NULL};
        struct wi_sched *s = NULL;
        CU_ASSERT_EQUAL(parse(&p, 0, &s), WEFT_EINVAL);
        if (!strstr(wi_fail_text(), cases[i].text)) {
            printf("# wanted \"%s\", found \"%s\"\n", cases[i].text, wi_fail_text());
            CU_FAIL("text");
        }
    }
}

static const struct wt_case cases[] = {
    {"images are no data", images_are_no_data},
    {"residuals are used once", residuals_are_used_once},
    {"all have the same images", all_have_the_same_images},
    {"losses are counted", losses_are_counted},
    {"form", forms},
    {"text round trip", text_round_trip},
    {"bad text", bad_text},
};
WT_UNIT_MAIN("sched_coded", cases)
