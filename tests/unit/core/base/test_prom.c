/* Prometheus' text format: names, labels, escapes, numbers and histograms. */
#include "support/check.h"

#include "base/prom.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const prom_def counter = { "sefl_a_total", PROM_COUNTER, "Counts a." };
static const prom_def gauge = { "sefl_b", PROM_GAUGE, "A line\nand a \\ and a \"quote\"." };
static const prom_def histogram = { "sefl_c_seconds", PROM_HISTOGRAM, "Durations." };

static const char *text(sefl_buf *b)
{
    CHECK_OK(wr_u8(b, 0));
    b->n--;
    return (const char *)b->p;
}

static void samples(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    prom p = prom_into(&b);
    prom_family(&p, &counter);
    prom_u64(&p, PROM_NO_LABELS, UINT64_MAX);
    prom_u64(&p, PROM_LABELS({ "outcome", "late" }, { "part", "" }), 3);
    prom_family(&p, &gauge);
    prom_real(&p, PROM_NO_LABELS, 0.1);
    prom_real(&p, PROM_NO_LABELS, -3);
    prom_real(&p, PROM_NO_LABELS, 1e-300);
    prom_real(&p, PROM_NO_LABELS, (double)NAN);
    prom_real(&p, PROM_NO_LABELS, (double)INFINITY);
    prom_real(&p, PROM_NO_LABELS, -(double)INFINITY);
    CHECK_OK(prom_end(&p));
    assert_string_equal(text(&b), "# HELP sefl_a_total Counts a.\n"
                                  "# TYPE sefl_a_total counter\n"
                                  "sefl_a_total 18446744073709551615\n"
                                  "sefl_a_total{outcome=\"late\",part=\"\"} 3\n"
                                  "# HELP sefl_b A line\\nand a \\\\ and a \"quote\".\n"
                                  "# TYPE sefl_b gauge\n"
                                  "sefl_b 0.1\nsefl_b -3\nsefl_b 1e-300\n"
                                  "sefl_b NaN\nsefl_b +Inf\nsefl_b -Inf\n");
    buf_clear(&b);
}

/* A value cannot end its quotes or its line, whatever it contains. */
static void escapes(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    prom p = prom_into(&b);
    prom_family(&p, &gauge);
    b.n = 0;
    prom_u64(&p, PROM_LABELS({ "name", "a\"} 1\nb\\" }), 7);
    CHECK_OK(prom_end(&p));
    assert_string_equal(text(&b), "sefl_b{name=\"a\\\"} 1\\nb\\\\\"} 7\n");
    for (int c = 1; c < 256; c++) { /* every byte: one line, and only escaped quotes inside */
        const char value[] = { (char)c, 0 };
        size_t bare = 0;
        b.n = 0;
        prom_u64(&p, PROM_LABELS({ "name", value }), 7);
        const char *t = text(&b);
        assert_ptr_equal(strchr(t, '\n'), t + strlen(t) - 1);
        for (; *t; t++) {
            if (*t == '\\')
                t++;
            else if (*t == '"')
                bare++;
        }
        assert_int_equal(bare, 2);
    }
    buf_clear(&b);
}

/* Reads the numbers of a histogram and checks its invariants: buckets grow, and the last is the
 * count. */
static uint64_t count_of(const char *t)
{
    uint64_t last = 0, n = 0, buckets = 0;
    for (const char *p = t; (p = strstr(p, "_bucket{")) != NULL; p++, buckets++) {
        assert_int_equal(sscanf(strchr(p, '}'), "} %" SCNu64, &n), 1);
        assert_true(n >= last);
        last = n;
    }
    assert_int_equal(buckets, PROM_BUCKETS);
    assert_non_null(strstr(t, "le=\"+Inf\""));
    assert_int_equal(sscanf(strstr(t, "_count"), "_count %" SCNu64, &n), 1);
    assert_int_equal(n, last);
    return n;
}

static void histograms(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    prom_histogram h = { 0 };
    prom p = prom_into(&b);
    prom_histogram_add(&h, 0);
    prom_histogram_add(&h, 1000000); /* a bound belongs to its bucket */
    prom_histogram_add(&h, 1000001);
    prom_histogram_add_seconds(&h, 2.5);
    prom_histogram_add_seconds(&h, -1);
    prom_histogram_add_seconds(&h, (double)NAN);
    prom_histogram_add_seconds(&h, 1e6);
    prom_family(&p, &histogram);
    prom_histogram_write(&p, PROM_NO_LABELS, &h);
    CHECK_OK(prom_end(&p));
    assert_int_equal(count_of(text(&b)), 7);
    static const char *const lines[] = {
        "sefl_c_seconds_bucket{le=\"0.001\"} 4\n", "sefl_c_seconds_bucket{le=\"0.005\"} 5\n",
        "sefl_c_seconds_bucket{le=\"1\"} 5\n",     "sefl_c_seconds_bucket{le=\"5\"} 6\n",
        "sefl_c_seconds_bucket{le=\"43200\"} 6\n", "sefl_c_seconds_bucket{le=\"+Inf\"} 7\n",
        "sefl_c_seconds_sum 1000002.5020000",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text(&b), lines[i]))
            fail_msg("no %s in\n%s", lines[i], text(&b));
    b.n = 0;
    prom_histogram_write(&p, PROM_LABELS({ "step", "reveal" }), &h);
    assert_non_null(strstr(text(&b), "sefl_c_seconds_bucket{step=\"reveal\",le=\"0.001\"} 4\n"));
    assert_non_null(strstr(text(&b), "sefl_c_seconds_count{step=\"reveal\"} 7\n"));
    prom_histogram_add_seconds(&h, (double)INFINITY); /* counted, with a bounded sum */
    buf_clear(&b);
}

enum { THREADS = 4, EACH = 20000 };

static void *add(void *h)
{
    for (unsigned i = 0; i < EACH; i++)
        prom_histogram_add(h, (uint64_t)i * 1000000);
    return NULL;
}

static void while_threads_add(void **state)
{
    (void)state;
    prom_histogram h = { 0 };
    pthread_t t[THREADS];
    sefl_buf b = { 0 };
    prom p = prom_into(&b);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, add, &h), 0);
    for (int i = 0; i < 50; i++) {
        b.n = 0;
        prom_family(&p, &histogram);
        prom_histogram_write(&p, PROM_NO_LABELS, &h);
        (void)count_of(text(&b));
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    b.n = 0;
    prom_histogram_write(&p, PROM_NO_LABELS, &h);
    assert_int_equal(count_of(text(&b)), THREADS * EACH);
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples),
        cmocka_unit_test(escapes),
        cmocka_unit_test(histograms),
        cmocka_unit_test(while_threads_add),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
