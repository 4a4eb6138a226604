/* The plugin's table: memory, texts, slots, one step as a CUDA graph, evaluation. */
#include "model/cuda/cuda.cuh"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>

enum { EVAL_COLUMNS = 10, MAX_BATCH = 16384, MAX_SLOTS = 4096, WORKSPACE = 64 << 20 };
enum { MAX_GRAPHS = 8 };
enum { TEXT_ROOM_SHIFT = 32 }; /* texts kept on the device: up to 4 GiB, then all are dropped */

struct text {
    uint32_t *words;
    uint64_t n;
};

struct timed {
    std::string name;
    double flop, bytes;
    cudaEvent_t at;
};

/* What only this file needs. */
struct inside {
    char *memory, *workspace;
    size_t memory_bytes;
    std::map<uint64_t, text> texts; /* by name */
    std::vector<text> unnamed;      /* by slot; the last one is the evaluation's */
    uint64_t text_bytes;
    std::map<int, cudaGraphExec_t> graphs; /* a step, by number of slots */
    bool timing;
    std::vector<timed> marks;
    float *pinned;  /* count floats */
    float *scratch; /* count floats on the device */
    slot *pinned_slots;
};

/* ---- failures -------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static failure fails(sefl_status st, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return failure{ st, text };
}

void check_cuda(cudaError_t e, const char *what)
{
    if (e == cudaSuccess)
        return;
    (void)cudaGetLastError(); /* or the next launch would seem to have failed */
    if (e == cudaErrorMemoryAllocation)
        throw fails(SEFL_ENOMEM, "GPU: out of device memory");
    throw fails(SEFL_ESTATE, "GPU: %s (%s)", cudaGetErrorString(e), what);
}

void check_blas(cublasStatus_t s, const char *what)
{
    if (s == CUBLAS_STATUS_SUCCESS)
        return;
    (void)cudaGetLastError();
    if (s == CUBLAS_STATUS_ALLOC_FAILED)
        throw fails(SEFL_ENOMEM, "GPU: out of device memory (cuBLAS)");
    throw fails(SEFL_ESTATE, "GPU: cuBLAS: %s (%s)", cublasGetStatusString(s), what);
}

/* Runs f; a failure becomes its status and message. */
template <class F> static sefl_status guarded(void (*note)(const char *), F f)
{
    try {
        f();
        return SEFL_OK;
    } catch (const failure &e) {
        note(e.text.c_str());
        return e.st;
    } catch (const std::bad_alloc &) {
        note("GPU: out of memory");
        return SEFL_ENOMEM;
    } catch (...) {
        note("GPU: an unknown failure");
        return SEFL_ESTATE;
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void plan_weight(device *d, plan *p, weight *w, int param, int b, int b2)
{
    const engine_param &e = d->param[param];
    int rows8 = (int)(e.rows + 7) / 8 * 8;
    *w = { param, b, b2, (int)e.rows, (int)e.cols, (int)e.block, rows8, 0, NULL, NULL };
    w->size = (size_t)rows8 * ld_of(w->cols);
    p->take(w->dense, d->G * w->size * d->real);
    p->take(w->grad, d->G * w->size * 4);
}

#define VECTORS(NAME, name, vectors) vectors,
static const size_t optim_vectors[] = { OPTIMISERS(VECTORS) };

/* The parts of a body (model/kinds.h). state: numbers that each layer carries per column and hidden
 * unit; a body without any reads the windows of an evaluation in parallel. */
struct body_parts {
    uint32_t engine_setup::*top; /* columns of the decoder */
    size_t state;
    int (*plan_weights)(device *d, plan *p, uint32_t layer, int at); /* the next parameter */
    int (*weights)(device *d, uint32_t layer, weight *out[4]);       /* their number */
    void (*check)(const device *d);
    void (*plan)(device *d, plan *p);
    void (*forward)(device *d, const pass &p, const float *theta, size_t theta_stride,
                    float *state);
    void (*backward)(device *d, const pass &p);
};

static int lstm_plan_weights(device *d, plan *p, uint32_t i, int at)
{
    plan_weight(d, p, &d->lstm[i].ih, at, at + 2, at + 3);
    plan_weight(d, p, &d->lstm[i].hh, at + 1, NULL_PARAM, NULL_PARAM);
    return at + 4;
}

static int lstm_weights(device *d, uint32_t i, weight *out[4])
{
    out[0] = &d->lstm[i].ih, out[1] = &d->lstm[i].hh;
    return 2;
}

static int transformer_weights(device *d, uint32_t i, weight *out[4])
{
    tr_layer &l = d->tr[i];
    out[0] = &l.qkv, out[1] = &l.proj, out[2] = &l.ff1, out[3] = &l.ff2;
    return 4;
}

static int transformer_plan_weights(device *d, plan *p, uint32_t i, int at)
{
    tr_layer &l = d->tr[i];
    weight *w[4];
    for (int k = 0, n = transformer_weights(d, i, w); k < n; k++, at += 2)
        plan_weight(d, p, w[k], at, at + 1, NULL_PARAM);
    l.n1_w = at++, l.n1_b = at++, l.n2_w = at++, l.n2_b = at++;
    return at;
}

static const body_parts body_lstm = {
    &engine_setup::hidden, 2, lstm_plan_weights, lstm_weights, NULL, lstm_plan, lstm_forward,
    lstm_backward
};
static const body_parts body_transformer = { &engine_setup::embed,
                                             0,
                                             transformer_plan_weights,
                                             transformer_weights,
                                             transformer_check,
                                             transformer_plan,
                                             [](device *d, const pass &p, const float *theta,
                                                size_t stride, float *) {
                                                 transformer_forward(d, p, theta, stride);
                                             },
                                             transformer_backward };

#define BODY(NAME, name) &body_##name,
static const body_parts *const bodies[] = { LM_BODIES(BODY) };

static const body_parts *body(const device *d)
{
    return bodies[d->set.body];
}

static void plan_body(device *d, plan *p)
{
    int at = 1; /* after the encoder */
    for (uint32_t i = 0; i < d->set.layers; i++)
        at = body(d)->plan_weights(d, p, i, at);
    int dec = d->set.tied ? 0 : at++;
    plan_weight(d, p, &d->dec, dec, at, NULL_PARAM);
    body(d)->plan(d, p);
}

static void plan_all(device *d, plan *p)
{
    const engine_setup &c = d->set;
    size_t n = d->tokens, e = c.embed, count = c.count, g = d->G;
    p->take(d->theta0, 4 * count);
    p->take(d->theta, 4 * g * count);
    p->take(d->grad, 4 * g * count);
    p->take(d->opt, 4 * g * d->opt_n);
    p->take(d->state, 4 * g * d->state_n);
    p->take(d->eval_state, 4 * d->state_n);
    p->take(d->positions, c.positions ? 4 * e * c.steps : 0);
    if (!c.positions)
        d->positions = NULL;
    p->take(d->x, n * ld_of(c.embed) * d->real);
    d->xf = NULL;
    if (c.positions)
        p->take(d->xf, 4 * n * e);
    p->take(d->x_mask, n * e);
    p->take(d->top_out, n * ld_of(d->top) * d->real);
    p->take(d->dtop, 4 * n * d->top);
    p->take(d->dx, 4 * n * e);
    p->take(d->logits, 4 * n * d->ldv);
    p->take(d->bias, 4 * g * d->ldv);
    if (d->bf)
        p->take(d->prob, n * d->ldv * d->real);
    else
        d->prob = d->logits;
    p->take(d->token_loss, 8 * n);
    p->take(d->part, 8 * g * d->parts);
    p->take(d->order, 4 * n);
    p->take(d->slots, (g + 1) * sizeof(slot));
    p->take(d->in->scratch, 4 * count);
    plan_body(d, p);
}

static void set_sizes(device *d, int slots)
{
    const engine_setup &c = d->set;
    size_t enc_end = c.tied ? 0 : d->param[0].offset + d->param[0].count;
    d->G = slots;
    d->tokens = (size_t)slots * std::max(d->B, (int)EVAL_COLUMNS) * d->T;
    d->parts = (size_t)d->B * d->T + (c.count - enc_end + 8191) / 8192;
}

static size_t bytes_for(device *d, int slots)
{
    set_sizes(d, slots);
    plan p = { NULL, 0 };
    plan_all(d, &p);
    return p.used;
}

/* Allocates memory for the wanted number of slots, or for fewer if these do not fit into nine tenths
 * of the free memory. */
static void take_memory(device *d)
{
    size_t free_bytes, all;
    CU(cudaMemGetInfo(&free_bytes, &all));
    free_bytes = free_bytes / 10 * 9;
    int slots = (int)std::min(d->set.slots, (uint32_t)MAX_SLOTS);
    while (slots > 1 && bytes_for(d, slots) > free_bytes)
        slots -= (slots + 7) / 8;
    size_t need = bytes_for(d, slots);
    if (need > free_bytes)
        throw fails(SEFL_ENOMEM, "GPU: the model needs %.1f GB of device memory, %.1f GB are free",
                    need / 1e9, free_bytes / 1e9);
    CU(cudaMalloc(&d->in->memory, need));
    CU(cudaMemsetAsync(d->in->memory, 0, need, d->stream));
    d->in->memory_bytes = need;
    plan p = { d->in->memory, 0 };
    plan_all(d, &p);
}

/* ---- opening and closing --------------------------------------------------------------------- */

void free_secret(void *p, size_t bytes)
{
    if (p && cudaMemset(p, 0, bytes) == cudaSuccess)
        cudaStreamSynchronize(cudaStreamLegacy); /* cudaFree need not wait (CUDA 12) */
    cudaFree(p);
}

static void free_text(text *t)
{
    free_secret(t->words, 4 * t->n);
    *t = {};
}

static void free_texts(device *d)
{
    cudaStreamSynchronize(d->stream); /* kernels may still read them */
    for (auto &t : d->in->texts)
        free_text(&t.second);
    d->in->texts.clear();
    d->in->text_bytes = 0;
}

/* Texts, parameters and everything computed from them are secret. */
static void close_device(void *self)
{
    device *d = (device *)self;
    if (!d)
        return;
    if (d->in) {
        if (d->stream) /* after a failure, kernels may still run and write */
            cudaStreamSynchronize(d->stream);
        sums_free(d);
        for (auto &g : d->in->graphs)
            cudaGraphExecDestroy(g.second);
        free_texts(d);
        for (text &t : d->in->unnamed)
            free_text(&t);
        for (timed &t : d->in->marks)
            cudaEventDestroy(t.at);
        free_secret(d->in->memory, d->in->memory_bytes);
        free_secret(d->in->workspace, WORKSPACE);
        if (d->in->pinned)
            explicit_bzero(d->in->pinned, 4 * d->set.count);
        if (d->in->pinned_slots)
            explicit_bzero(d->in->pinned_slots, (d->G + 1) * sizeof(slot));
        explicit_bzero(d->host.data(), d->host.size() * sizeof(slot));
        cudaFreeHost(d->in->pinned);
        cudaFreeHost(d->in->pinned_slots);
    }
    if (d->blas)
        cublasDestroy(d->blas);
    if (d->stream)
        cudaStreamDestroy(d->stream);
    delete d->in;
    delete d;
}

static void check_setup(const engine_setup *c)
{
    if ((uint64_t)c->batch * c->steps > MAX_BATCH)
        throw fails(SEFL_EUNSUPPORTED, "GPU: a batch of %u x %u words: needs at most %d", c->batch,
                    c->steps, MAX_BATCH);
    if (c->slots < 1 || c->layers > MAX_LAYERS)
        throw fails(SEFL_EINVAL, "GPU: %u slots, %u layers", c->slots, c->layers);
}

static void open_it(device *d, const engine_setup *setup, engine_facts *facts)
{
    cudaDeviceProp prop;
    int devices = 0, driver = 0;
    check_setup(setup);
    (void)cudaGetLastError();
    cudaError_t e = cudaGetDeviceCount(&devices);
    if (e == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess) {
        if (driver == 0)
            throw fails(SEFL_ENOTFOUND, "no usable GPU: no NVIDIA driver is installed");
        throw fails(SEFL_ENOTFOUND,
                    "no usable GPU: the NVIDIA driver supports CUDA %d.%d, the plugin needs %d.%d",
                    driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                    CUDART_VERSION % 1000 / 10);
    }
    if (e != cudaSuccess || devices == 0)
        throw fails(SEFL_ENOTFOUND, "no usable GPU: %s",
                    e == cudaSuccess ? "the driver reports none" : cudaGetErrorString(e));
    const int number = (int)(setup->number % (uint32_t)devices);
    if (number > 0)
        CU(cudaSetDevice(number));
    e = cudaFree(NULL); /* a fault stays in the process */
    if (e != cudaSuccess && e != cudaErrorMemoryAllocation)
        throw fails(SEFL_ESTATE,
                    "GPU: this process cannot use it, perhaps after an earlier failure: %s",
                    cudaGetErrorString(e));
    CU(cudaGetDeviceProperties(&prop, number));
    if (prop.major < 8)
        throw fails(SEFL_EUNSUPPORTED, "no usable GPU: %s has compute capability %d.%d, needs 8.0",
                    prop.name, prop.major, prop.minor);
    d->set = *setup;
    d->param.assign(setup->param, setup->param + setup->params);
    d->set.param = NULL;
    d->B = (int)setup->batch, d->T = (int)setup->steps;
    d->bf = setup->precision == ENGINE_BF16;
    d->real = d->bf ? 2 : 4;
    d->top = (int)(d->set.*body(d)->top);
    d->ldv = (int)((setup->vocab + 7) / 8 * 8);
    d->shared_most = prop.sharedMemPerBlockOptin;
    if (body(d)->check)
        body(d)->check(d);
    d->opt_n = setup->count * optim_vectors[setup->optimiser];
    d->state_cols = std::max(d->B, (int)EVAL_COLUMNS);
    d->state_n = body(d)->state * d->state_cols * setup->hidden * setup->layers;
    CU(cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking));
    BLAS(cublasCreate(&d->blas));
    BLAS(cublasSetStream(d->blas, d->stream));
    CU(cudaMalloc(&d->in->workspace, WORKSPACE));
    BLAS(cublasSetWorkspace(d->blas, d->in->workspace, WORKSPACE));
    take_memory(d);
    CU(cudaMallocHost(&d->in->pinned, 4 * setup->count));
    CU(cudaMallocHost(&d->in->pinned_slots, (d->G + 1) * sizeof(slot)));
    if (setup->positions)
        CU(cudaMemcpyAsync(d->positions, setup->positions, 4ull * setup->embed * setup->steps,
                           cudaMemcpyHostToDevice, d->stream));
    CU(cudaStreamSynchronize(d->stream));
    d->set.positions = NULL;
    d->host.assign(d->G + 1, slot{});
    d->in->unnamed.assign(d->G + 1, text{});
    snprintf(facts->device, sizeof facts->device, "%s", prop.name);
    facts->slots = (uint32_t)d->G;
    facts->memory = d->in->memory_bytes + WORKSPACE;
}

static sefl_status open_device(void **self, const engine_setup *setup, engine_facts *facts)
{
    device *d = new (std::nothrow) device();
    *self = NULL;
    if (!d || !(d->in = new (std::nothrow) inside())) {
        delete d;
        setup->note("GPU: out of memory");
        return SEFL_ENOMEM;
    }
    sefl_status st = guarded(setup->note, [&] { open_it(d, setup, facts); });
    if (st != SEFL_OK)
        close_device(d);
    else
        *self = d;
    return st;
}

/* ---- texts and slots ------------------------------------------------------------------------- */

static text upload(device *d, const uint32_t *words, uint64_t n)
{
    text t = { NULL, n };
    for (uint64_t i = 0; i < n; i++)
        if (words[i] >= d->set.vocab)
            throw fails(SEFL_EINVAL, "word %u: the vocabulary has only %u words", words[i],
                        d->set.vocab);
    CU(cudaMalloc(&t.words, 4 * n));
    cudaError_t e = cudaMemcpyAsync(t.words, words, 4 * n, cudaMemcpyHostToDevice, d->stream);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(d->stream);
    if (e != cudaSuccess)
        free_text(&t);
    CU(e);
    return t;
}

/* Returns the words on the device. A named text is sent once. owner: slot of an unnamed text. */
static const uint32_t *words_of(device *d, int owner, const uint32_t *words, uint64_t n,
                                uint64_t name)
{
    if (name == 0) {
        text t = upload(d, words, n);
        free_text(&d->in->unnamed[owner]);
        return (d->in->unnamed[owner] = t).words;
    }
    auto at = d->in->texts.find(name);
    if (at != d->in->texts.end() && at->second.n != n)
        throw fails(SEFL_EINVAL, "GPU: text %llu has %llu words, and had %llu",
                    (unsigned long long)name, (unsigned long long)n,
                    (unsigned long long)at->second.n);
    if (at != d->in->texts.end())
        return at->second.words;
    bool busy = false;
    for (const slot &s : d->host)
        busy = busy || s.live;
    if (!busy && d->in->text_bytes + 4 * n > 1ull << TEXT_ROOM_SHIFT)
        free_texts(d);
    text t = upload(d, words, n);
    d->in->texts[name] = t;
    d->in->text_bytes += 4 * n;
    return t.words;
}

static void put_slot(device *d, int i)
{
    d->in->pinned_slots[i] = d->host[i];
    CU(cudaMemcpyAsync(d->slots + i, d->in->pinned_slots + i, sizeof(slot), cudaMemcpyHostToDevice,
                       d->stream));
    CU(cudaStreamSynchronize(d->stream));
}

static void get_slots(device *d, int first, int n)
{
    CU(cudaMemcpyAsync(d->in->pinned_slots + first, d->slots + first, n * sizeof(slot),
                       cudaMemcpyDeviceToHost, d->stream));
    CU(cudaStreamSynchronize(d->stream));
    std::copy(d->in->pinned_slots + first, d->in->pinned_slots + first + n,
              d->host.begin() + first);
}

static void set_theta(device *d, const float *theta)
{
    memcpy(d->in->pinned, theta, 4 * d->set.count);
    CU(cudaMemcpyAsync(d->theta0, d->in->pinned, 4 * d->set.count, cudaMemcpyHostToDevice,
                       d->stream));
    CU(cudaStreamSynchronize(d->stream));
}

static void check_slot(device *d, uint32_t i)
{
    if (i >= (uint32_t)d->G)
        throw fails(SEFL_EINVAL, "GPU: slot %u of %d", i, d->G);
}

static void set_next(slot *s)
{
    s->live = s->at.done < s->limit;
    s->steps = s->live ? (uint32_t)std::min((uint64_t)s->window, s->rows - 1 - s->at.row) : 0;
}

static void start(device *d, uint32_t i, const train_steps *j)
{
    check_slot(d, i);
    if (j->columns < 1 || (int)j->columns > d->B || j->steps < 1 || (int)j->steps > d->T ||
        j->n < 2)
        throw fails(SEFL_EINVAL, "GPU: %llu words in %u columns, %u in sequence: room for %d x %d",
                    (unsigned long long)j->n, j->columns, j->steps, d->B, d->T);
    /* A text too short for that many columns uses fewer, as model/train.h. */
    uint32_t columns = (uint32_t)std::min((uint64_t)j->columns, j->n / 2);
    slot s = {};
    s.words = words_of(d, (int)i, j->words, j->n, j->text);
    s.rows = j->n / columns;
    s.cols = s.real_cols = columns;
    s.window = j->steps;
    s.limit = j->limit ? j->limit : UINT64_MAX;
    s.lr = j->lr, s.decay = j->lr_decay, s.clip = j->clip;
    s.drop = std::min((uint32_t)(j->dropout.rate * 65536 + 0.5), 65535u);
    s.keep = (float)(65536.0 / (65536.0 - s.drop));
    memcpy(s.key, j->dropout.key, sizeof s.key);
    set_next(&s);
    d->host[i] = s;
    size_t count = d->set.count;
    CU(cudaMemcpyAsync(d->theta + i * count, d->theta0, 4 * count, cudaMemcpyDeviceToDevice,
                       d->stream));
    if (d->opt_n)
        CU(cudaMemsetAsync(d->opt + i * d->opt_n, 0, 4 * d->opt_n, d->stream));
    if (d->state_n)
        CU(cudaMemsetAsync(d->state + i * d->state_n, 0, 4 * d->state_n, d->stream));
}

/* ---- a step ---------------------------------------------------------------------------------- */

void mark(device *d, const char *name, double flop, double bytes)
{
    if (!d->in->timing)
        return;
    timed t = { name, flop, bytes, NULL };
    CU(cudaEventCreate(&t.at));
    CU(cudaEventRecord(t.at, d->stream));
    d->in->marks.push_back(t);
}

template <class F> static void each_weight(device *d, F f)
{
    weight *w[4];
    for (uint32_t i = 0; i < d->set.layers; i++)
        for (int k = 0, n = body(d)->weights(d, i, w); k < n; k++)
            f(*w[k]);
    f(d->dec);
}

static void step(device *d, const pass &p)
{
    double values = 1.0 * p.slots * d->set.count;
    mark(d, "expand", 0, 4 * values + d->real * (double)p.slots * d->dec.size);
    each_weight(d, [&](const weight &w) { expand(d, p, w, d->theta, d->set.count); });
    mark(d, "embedding", 0, 0);
    embed(d, p, d->theta, d->set.count);
    mark(d, "body forward", 0, 0);
    body(d)->forward(d, p, d->theta, d->set.count, d->state);
    head(d, p, d->theta, d->set.count);
    mark(d, "body backward", 0, 0);
    body(d)->backward(d, p);
    mark(d, "fold", 0, 4 * values + 4 * (double)p.slots * d->dec.size);
    each_weight(d, [&](const weight &w) { fold(d, p, w); });
    mark(d, "embedding back", 0, 0);
    embed_back(d, p);
    update(d, p);
    mark(d, "", 0, 0);
}

/* Returns the graph of a step with this number of slots, created at its first use. */
static cudaGraphExec_t graph_of(device *d, const pass &p)
{
    auto at = d->in->graphs.find(p.slots);
    if (at != d->in->graphs.end())
        return at->second;
    cudaGraph_t g = NULL;
    cudaGraphExec_t exec = NULL;
    if (d->in->graphs.size() >= MAX_GRAPHS) { /* rounds of sampled clients differ in size */
        for (auto &old : d->in->graphs)
            cudaGraphExecDestroy(old.second);
        d->in->graphs.clear();
    }
    CU(cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal));
    try {
        step(d, p);
    } catch (...) {
        cudaStreamEndCapture(d->stream, &g);
        if (g)
            cudaGraphDestroy(g);
        throw;
    }
    CU(cudaStreamEndCapture(d->stream, &g));
    cudaError_t e = cudaGraphInstantiate(&exec, g, 0);
    cudaGraphDestroy(g);
    CU(e);
    return d->in->graphs[p.slots] = exec;
}

static void engine_run(device *d, uint32_t slots, uint64_t steps, engine_progress *out)
{
    if (slots < 1 || slots > (uint32_t)d->G)
        throw fails(SEFL_EINVAL, "GPU: %u slots of %d", slots, d->G);
    pass p = { d->slots, (int)slots, d->B, d->T, d->B * d->T, true };
    uint64_t most = 0;
    for (uint32_t i = 0; i < slots; i++) {
        slot &s = d->host[i];
        s.loss_sum = 0, s.words_sum = 0;
        if (s.live)
            most = std::max(most, s.limit - s.at.done);
        d->in->pinned_slots[i] = s;
    }
    CU(cudaMemcpyAsync(d->slots, d->in->pinned_slots, slots * sizeof(slot), cudaMemcpyHostToDevice,
                       d->stream));
    most = std::min(most, steps);
    cudaGraphExec_t graph = most > 0 && !d->in->timing ? graph_of(d, p) : NULL;
    for (uint64_t i = 0; i < most; i++) {
        if (d->in->timing)
            step(d, p);
        else
            CU(cudaGraphLaunch(graph, d->stream));
    }
    get_slots(d, 0, (int)slots);
    for (uint32_t i = 0; i < slots; i++) {
        const slot &s = d->host[i];
        out[i] = { s.at,      s.words_sum, s.loss_sum, s.norm, !s.live && !s.diverged && s.rows > 0,
                   s.diverged };
    }
}

/* ---- reading and writing --------------------------------------------------------------------- */

__global__ void delta_kernel(float *out, const float *theta, const float *from, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        out[i] = theta[i] - from[i];
}

/* Returns a part's device address and its size in bytes. */
static char *part_at(device *d, uint32_t slot_number, uint32_t part, size_t *bytes)
{
    size_t count = d->set.count, i = slot_number;
    switch (part) {
    case ENGINE_THETA:
        return *bytes = 4 * count, (char *)(d->theta + i * count);
    case ENGINE_STATE:
        return *bytes = 4 * d->state_n, (char *)(d->state + i * d->state_n);
    case ENGINE_OPTIM:
        return *bytes = 4 * d->opt_n, (char *)(d->opt + i * d->opt_n);
    default:
        throw fails(SEFL_EINVAL, "GPU: no part %u", part);
    }
}

static void check_bytes(size_t have, size_t want)
{
    if (have != want)
        throw fails(SEFL_EINVAL, "GPU: %zu bytes for a part of %zu", have, want);
}

static void read_part(device *d, uint32_t i, uint32_t part, void *out, size_t bytes)
{
    size_t size = 4 * d->set.count;
    check_slot(d, i);
    if (part == ENGINE_CURSOR) {
        check_bytes(bytes, sizeof(engine_cursor));
        memcpy(out, &d->host[i].at, bytes);
        return;
    }
    char *from = (char *)d->in->scratch;
    if (part == ENGINE_DELTA) {
        delta_kernel<<<1024, 256, 0, d->stream>>>(d->in->scratch, d->theta + slot_theta(d, i),
                                                  d->theta0, d->set.count);
        LAUNCHED();
    } else {
        from = part_at(d, i, part, &size);
    }
    check_bytes(bytes, size);
    for (size_t at = 0, room = 4 * d->set.count; at < size; at += room) {
        size_t n = std::min(room, size - at);
        CU(cudaMemcpyAsync(d->in->pinned, from + at, n, cudaMemcpyDeviceToHost, d->stream));
        CU(cudaStreamSynchronize(d->stream));
        memcpy((char *)out + at, d->in->pinned, n);
    }
}

static void write_part(device *d, uint32_t i, uint32_t part, const void *in, size_t bytes)
{
    size_t size;
    check_slot(d, i);
    if (part == ENGINE_CURSOR) {
        check_bytes(bytes, sizeof(engine_cursor));
        slot &s = d->host[i];
        engine_cursor at;
        memcpy(&at, in, bytes);
        if (s.rows == 0 || at.row >= s.rows - 1)
            throw fails(SEFL_EINVAL, "GPU: row %llu of %llu", (unsigned long long)at.row,
                        (unsigned long long)s.rows);
        s.at = at;
        set_next(&s);
        return;
    }
    char *to = part_at(d, i, part, &size);
    check_bytes(bytes, size);
    CU(cudaMemcpyAsync(to, in, size, cudaMemcpyHostToDevice,
                       d->stream)); /* after start()'s copies */
    CU(cudaStreamSynchronize(d->stream));
}

/* ---- evaluation ------------------------------------------------------------------------------ */

static void evaluate(device *d, uint32_t of, const uint32_t *words, uint64_t n, uint64_t name,
                     double *loss, uint64_t *counted)
{
    const bool carries = d->state_n > 0;
    int e = d->G;
    if (of != UINT32_MAX)
        check_slot(d, of);
    const float *theta = of == UINT32_MAX ? d->theta0 : d->theta + slot_theta(d, (int)of);
    slot &s = d->host[e];
    s = {};
    s.words = words_of(d, e, words, n, name);
    s.rows = n / EVAL_COLUMNS;
    if (s.rows < 2)
        throw fails(SEFL_EINVAL, "%llu words are too few to evaluate: needs at least %d",
                    (unsigned long long)n, 2 * EVAL_COLUMNS);
    s.real_cols = EVAL_COLUMNS;
    /* a carried state: the columns' next rows; else windows are independent, read in parallel */
    int windows = carries ? 1 : std::max(1, (int)(d->tokens / ((size_t)d->T * EVAL_COLUMNS)));
    s.cols = EVAL_COLUMNS * windows;
    s.window = carries ? (uint32_t)(d->tokens / EVAL_COLUMNS) : d->T;
    pass p = { d->slots + e, 1, (int)s.cols, (int)s.window, (int)(s.cols * s.window), false };
    each_weight(d, [&](const weight &w) { expand(d, p, w, theta, 0); });
    if (d->state_n)
        CU(cudaMemsetAsync(d->eval_state, 0, 4 * d->state_n, d->stream));
    for (uint64_t at = 0; at + 1 < s.rows; at += (uint64_t)windows * s.window) {
        double sum = s.loss_sum;
        uint64_t sum_words = s.words_sum;
        s.at.row = at;
        s.steps = carries ? (uint32_t)std::min((uint64_t)s.window, s.rows - 1 - at) : s.window;
        s.loss_sum = 0, s.words_sum = 0;
        put_slot(d, e);
        embed(d, p, theta, 0);
        body(d)->forward(d, p, theta, 0, d->eval_state);
        head(d, p, theta, 0);
        add_losses(d, p);
        get_slots(d, e, 1);
        s.loss_sum += sum, s.words_sum += sum_words;
    }
    *loss = s.loss_sum;
    *counted = s.words_sum;
    s.live = 0;
}

/* ---- times ----------------------------------------------------------------------------------- */

/* The seconds of one call of f, the best of ten. */
template <class F> static double seconds_of(device *d, F f)
{
    cudaEvent_t from, to;
    float best = INFINITY, ms;
    CU(cudaEventCreate(&from));
    CU(cudaEventCreate(&to));
    for (int i = 0; i < 12; i++) { /* two to warm up */
        CU(cudaEventRecord(from, d->stream));
        f();
        CU(cudaEventRecord(to, d->stream));
        CU(cudaEventSynchronize(to));
        CU(cudaEventElapsedTime(&ms, from, to));
        best = i < 2 ? best : std::min(best, ms);
    }
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    return best * 1e-3;
}

/* What this GPU can do: a square product of random operands, and a copy. The logits
 * serve as memory; every step overwrites them. */
static uint32_t ceilings(device *d, engine_time *out, uint32_t room)
{
    size_t bytes = d->tokens * d->ldv * 4 / 3 / 256 * 256;
    int side = std::min((int)sqrt((double)bytes / 4) / 128 * 128, 8192);
    char *a = (char *)d->logits, *b = a + bytes, *c = b + bytes;
    cudaDataType type = d->bf ? CUDA_R_16BF : CUDA_R_32F;
    const float one = 1, zero = 0;
    if (room < 2 || side < 1024)
        return 0;
    for (char *p : { a, b })
        for (size_t at = 0; at < (size_t)side * side * d->real; at += 4 * d->set.count)
            CU(cudaMemcpyAsync(
                p + at, d->theta0,
                std::min((size_t)side * side * d->real - at, 4 * (size_t)d->set.count),
                cudaMemcpyDeviceToDevice, d->stream));
    out[0] = out[1] = {};
    snprintf(out[0].name, sizeof out->name, "ceiling: products");
    out[0].flop = 2.0 * side * side * side;
    out[0].seconds = seconds_of(d, [&] {
        BLAS(cublasGemmEx(d->blas, CUBLAS_OP_T, CUBLAS_OP_N, side, side, side, &one, a, type, side,
                          b, type, side, &zero, c, CUDA_R_32F, side, CUBLAS_COMPUTE_32F,
                          CUBLAS_GEMM_DEFAULT));
    });
    snprintf(out[1].name, sizeof out->name, "ceiling: memory");
    out[1].bytes = 2.0 * bytes;
    out[1].seconds = seconds_of(
        d, [&] { CU(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, d->stream)); });
    return 2;
}

static void times(device *d, int on, engine_time *out, uint32_t *n)
{
    uint32_t used = 0;
    std::vector<timed> &m = d->in->marks;
    CU(cudaStreamSynchronize(d->stream));
    for (size_t i = 0; i + 1 < m.size(); i++) {
        if (m[i].name.empty())
            continue; /* the end of a step */
        float ms = 0;
        CU(cudaEventElapsedTime(&ms, m[i].at, m[i + 1].at));
        uint32_t k = 0;
        while (k < used && m[i].name != out[k].name)
            k++;
        if (k == *n)
            continue;
        if (k == used) {
            out[used] = {};
            snprintf(out[used++].name, sizeof out->name, "%s", m[i].name.c_str());
        }
        out[k].seconds += ms * 1e-3;
        out[k].flop += m[i].flop;
        out[k].bytes += m[i].bytes;
    }
    for (timed &t : m)
        cudaEventDestroy(t.at);
    m.clear();
    if (!on && d->in->timing)
        used += ceilings(d, out + used, *n - used);
    d->in->timing = on != 0;
    *n = used;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define ENTRY(call)                           \
    guarded(((device *)self)->set.note, [&] { \
        device *d = (device *)self;           \
        call;                                 \
    })

static sefl_status ops_theta(void *self, const float *theta)
{
    return ENTRY(set_theta(d, theta));
}

static sefl_status ops_start(void *self, uint32_t slot, const train_steps *how)
{
    return ENTRY(start(d, slot, how));
}

static sefl_status ops_run(void *self, uint32_t slots, uint64_t steps, engine_progress *out)
{
    return ENTRY(engine_run(d, slots, steps, out));
}

static sefl_status ops_read(void *self, uint32_t slot, uint32_t part, void *out, size_t bytes)
{
    return ENTRY(read_part(d, slot, part, out, bytes));
}

static sefl_status ops_write(void *self, uint32_t slot, uint32_t part, const void *in, size_t bytes)
{
    return ENTRY(write_part(d, slot, part, in, bytes));
}

static sefl_status ops_evaluate(void *self, uint32_t slot, const uint32_t *words, uint64_t n,
                                uint64_t text, double *loss, uint64_t *counted)
{
    return ENTRY(evaluate(d, slot, words, n, text, loss, counted));
}

static sefl_status ops_sum_begin(void *self, const engine_sum *how)
{
    return ENTRY(sums_begin(d, how));
}

static sefl_status ops_sum_add(void *self, const engine_share *share, uint32_t n)
{
    return ENTRY(sums_add(d, share, n));
}

static sefl_status ops_sum_noise(void *self, const engine_noise *how)
{
    return ENTRY(sums_noise(d, how));
}

static sefl_status ops_sum_end(void *self, void *out, size_t bytes)
{
    return ENTRY(sums_end(d, out, bytes));
}

static sefl_status ops_times(void *self, int on, engine_time *out, uint32_t *n)
{
    return ENTRY(times(d, on, out, n));
}

extern "C" __attribute__((visibility("default"))) const engine_ops *sefl_engine(void)
{
    static const engine_ops ops = { ENGINE_ABI,   sizeof(engine_ops), "cuda",       open_device,
                                    close_device, ops_theta,          ops_start,    ops_run,
                                    ops_read,     ops_write,          ops_evaluate, ops_sum_begin,
                                    ops_sum_add,  ops_sum_noise,      ops_sum_end,  ops_times };
    return &ops;
}
