#include "support/check.h"
#include "support/folder.h"

#include "config/yaml/yaml.h"
#include "protocol/task.h"
#include "simulate/experiment.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void read_text(settings *s, const char *text)
{
    settings_init(s, experiment_schema());
    CHECK_OK(yaml_read_over(s, span_of_str(text), "e.yml"));
}

static void sweeps(void **state)
{
    (void)state;
    settings s, one;
    read_text(&s, "name: study\nsweep:\n  training.lr: [5, 10, 20]\n  protection: [none, sefl]\n");
    assert_int_equal(experiment_runs(&s), 6);
    const char *names[6];
    char copy[6][EXPERIMENT_NAME_MAX + 1];
    for (size_t i = 0; i < 6; i++) {
        CHECK_OK(experiment_run(&one, &s, i));
        snprintf(copy[i], sizeof copy[i], "%s", settings_text(&one, "name"));
        names[i] = copy[i];
        assert_false(settings_given(&one, "sweep.training.lr"));
        assert_int_equal(experiment_runs(&one), 1);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(names[i], names[k]);
        assert_non_null(strstr(names[i], settings_text(&one, "training.lr")));
        assert_non_null(strstr(names[i], settings_text(&one, "protection")));
        settings_clear(&one);
    }
    settings_clear(&s);

    read_text(&s, "sweep: { training.lr: [5, x] }\n"); /* a wrong value is reported with its run */
    CHECK_OK(experiment_run(&one, &s, 0));
    settings_clear(&one);
    CHECK_STATUS(experiment_run(&one, &s, 1), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "e.yml:1:"));
    assert_non_null(strstr(sefl_last_error(), "training.lr"));
    settings_clear(&s);

    char many[8192] = "sweep: { seed: [1";
    for (int i = 2; i <= 1001; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), ",%d", i);
    strcat(many, "] }\n");
    settings_init(&s, experiment_schema());
    sefl_status st = yaml_read_over(&s, span_of_str(many), "e.yml");
    assert_true(st != SEFL_OK || experiment_runs(&s) == 0); /* too long a value, or too many runs */
    settings_clear(&s);

    CHECK_STATUS((settings_init(&s, experiment_schema()),
                  yaml_read_over(&s, span_of_str("sweep: { name: [a, b] }\n"), "e.yml")),
                 SEFL_EINVAL);
    settings_clear(&s);
}

static void wrong_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "protection: all\n", "e.yml:1:1: protection must be one of: none cdp sefl" },
        { "clients: 1000001\n", "clients must be a whole number from 1 to 1000000" },
        { "network:\n  droput: 1\n", "did you mean \"network.dropout\"?" },
        { "network: { dropout: 1.5 }\n", "network.dropout" },
        { "data: { partition: sorted }\n", "data.partition must be one of" },
        { "vocab.sha256: abc\n", "unknown setting" }, /* the simulator sets these */
        { "train.lr: 5\n", "train.lr is now called training.lr" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        settings s;
        settings_init(&s, experiment_schema());
        CHECK_STATUS(yaml_read_over(&s, span_of_str(cases[i].text), "e.yml"), SEFL_EINVAL);
        if (!strstr(sefl_last_error(), cases[i].says))
            fail_msg("\"%s\" is not in \"%s\"", cases[i].says, sefl_last_error());
        settings_clear(&s);
    }
    static const struct {
        const char *text, *says;
    } later[] = {
        { "name: a/b\n", "not a valid folder name" },
        { "clients: 1\n", "the sum of one client" },
        { "data: { alpha: 0 }\n", "data.alpha" },
        { "data: { vocab: /tmp }\n", "data.vocab" },
    };
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        settings s;
        experiment e;
        read_text(&s, later[i].text);
        CHECK_STATUS(experiment_make(&e, &s), SEFL_EINVAL);
        if (!strstr(sefl_last_error(), later[i].says))
            fail_msg("\"%s\" is not in \"%s\"", later[i].says, sefl_last_error());
        settings_clear(&s);
    }
}

/* What experiment_write writes is the same experiment. */
static void resolved(void **state)
{
    (void)state;
    settings a, b;
    sefl_buf one = { 0 }, two = { 0 };
    read_text(&a, "name: it's\nclients: 7\ncrypto: full\ncrypto.scheme: paillier\nthreads: 2\n"
                  "training: { lr: 2.50 }\n");
    CHECK_OK(experiment_write(&one, &a));
    settings_init(&b, experiment_schema());
    CHECK_OK(yaml_read_over(&b, buf_span(&one), "config.yml"));
    CHECK_OK(experiment_write(&two, &b));
    assert_int_equal(one.n, two.n);
    assert_memory_equal(one.p, two.p, one.n);
    assert_string_equal(settings_text(&b, "name"), "it's");
    assert_string_equal(settings_text(&b, "training.lr"), "2.50");
    assert_false(settings_given(&b, "threads"));
    buf_clear(&one);
    buf_clear(&two);
    settings_clear(&a);
    settings_clear(&b);
}

static void paths(void **state)
{
    (void)state;
    settings s;
    experiment e;
    char folder[PATH_MAX], want[2 * PATH_MAX];
    snprintf(folder, sizeof folder, "%s", folder_path("sub"));
    assert_int_equal(mkdir(folder, 0700), 0);
    folder_put("sub/text.txt", "a b c\n", 6);
    static const char text[] = "data: { path: text.txt }\n";
    settings_init(&s, experiment_schema());
    CHECK_OK(yaml_read(&s, folder_put("sub/e.yml", text, sizeof text - 1)));
    CHECK_OK(experiment_make(&e, &s));
    assert_non_null(realpath(folder, want));
    strcat(want, "/text.txt");
    assert_string_equal(settings_text(&s, "data.path"), want);
    settings_clear(&s);
    static const char none[] = "data: { path: none.txt }\n";
    settings_init(&s, experiment_schema());
    CHECK_OK(yaml_read(&s, folder_put("sub/f.yml", none, sizeof none - 1)));
    CHECK_STATUS(experiment_make(&e, &s), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "data.path"));
    settings_clear(&s);
}

/* The effect of each protection on the same file. */
static void tasks(void **state)
{
    (void)state;
    static const char hash[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    static const struct {
        const char *word, *noise, *claim;
    } want[] = { { "none", "none", "none" }, { "cdp", "own", "dp" }, { "sefl", "joint", "dp" } };
    for (size_t i = 0; i < 3; i++) {
        settings s, t;
        experiment e;
        char text[256];
        snprintf(text, sizeof text,
                 "clients: 20\nprotection: %s\nprivacy: { claim: dp, z: 1, epsilon: 9 }\n"
                 "training: { steps: 3 }\n",
                 want[i].word);
        read_text(&s, text);
        CHECK_OK(experiment_make(&e, &s));
        CHECK_OK(experiment_task(&t, &s, &e, 100, hash, hash, hash));
        assert_string_equal(settings_text(&t, "privacy.noise"), want[i].noise);
        assert_string_equal(settings_text(&t, "privacy.claim"), want[i].claim);
        assert_int_equal(settings_given(&t, "privacy.epsilon"), i > 0);
        assert_int_equal(settings_u64(&t, "rounds.enrolled"), 20);
        assert_int_equal(settings_u64(&t, "rounds.enough"), 20);
        assert_int_equal(settings_u64(&t, "rounds.threshold"), 5);
        assert_false(settings_given(&t, "training.epochs")); /* steps were asked for */
        assert_string_equal(settings_text(&t, "model.embed"), "48");
        settings_clear(&s);
        settings_clear(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sweeps), cmocka_unit_test(wrong_files), cmocka_unit_test(resolved),
        cmocka_unit_test(paths),  cmocka_unit_test(tasks),
    };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
