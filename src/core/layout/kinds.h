/* kinds: what a built-in model and its training can be. Each enumeration is one list, from which
 * its enum, the words of its setting, its names and the tables of its parts follow; the GPU plugin
 * uses the same enums. docs/ARCHITECTURE.md, "Where do I change", names the parts of a new entry. A
 * part that is missing does not compile (tests/e2e/test_kinds.sh).
 *
 * Plain C without other headers, so that the plugin compiles with nvcc alone. */
#ifndef MODEL_KINDS_H
#define MODEL_KINDS_H

/* An entry without parts in one list, with which the test shows that the build names them. */
#ifdef SEFL_SCRATCH_BODY
#define SCRATCH_BODY(B) B(SCRATCH, scratch)
#else
#define SCRATCH_BODY(B)
#endif
#ifdef SEFL_SCRATCH_OPTIMISER
#define SCRATCH_OPTIMISER(O) O(SCRATCH, scratch, 3)
#else
#define SCRATCH_OPTIMISER(O)
#endif
#ifdef SEFL_SCRATCH_SERVER
#define SCRATCH_SERVER(C) C(SCRATCH, scratch, SGD)
#else
#define SCRATCH_SERVER(C)
#endif

/* B(NAME, name): the bodies. The first one is the default. */
#define LM_BODIES(B) \
    B(LSTM, lstm)    \
    B(TRANSFORMER, transformer) SCRATCH_BODY(B)

/* O(NAME, name, vectors): the optimisers of local training, and the vectors of their state. */
#define OPTIMISERS(O)        \
    O(SGD, sgd, 0)           \
    O(MOMENTUM, momentum, 1) \
    O(ADAM, adam, 2) SCRATCH_OPTIMISER(O)

/* S(NAME, name): how the learning rate changes over the rounds. */
#define SCHEDULES(S)      \
    S(CONSTANT, constant) \
    S(LINEAR, linear)     \
    S(COSINE, cosine)

/* P(NAME, name): the precisions of matrix products on a GPU. */
#define PRECISIONS(P) \
    P(BF16, bf16)     \
    P(FP32, fp32)

/* The words of a setting, "lstm transformer". */
#define KIND_WORD(NAME, name, ...) " " #name
#define KIND_WORDS(list)           (&(list(KIND_WORD))[1])

#define LM_BODY_KIND(NAME, name)   LM_##NAME,
typedef enum lm_body_kind { LM_BODIES(LM_BODY_KIND) LM_BODY_KINDS } lm_body_kind;

#define OPTIM_KIND(NAME, name, vectors) OPTIM_##NAME,
typedef enum optim_kind { OPTIMISERS(OPTIM_KIND) OPTIM_KINDS } optim_kind;

#define ENGINE_PRECISION(NAME, name) ENGINE_##NAME,
enum { PRECISIONS(ENGINE_PRECISION) ENGINE_PRECISION_KINDS };

#endif
