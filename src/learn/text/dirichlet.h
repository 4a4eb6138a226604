/* dirichlet: draws random shares that add up to 1; alpha controls how skewed they are.
 *
 * (p_1 .. p_n) ~ Dirichlet(alpha, ..., alpha): normalised Gamma(alpha) variates, drawn by Marsaglia
 * and Tsang's method (A simple method for generating gamma variables, ACM TOMS 26, 2000). A small
 * alpha puts nearly everything into one share; a large alpha makes the shares nearly equal. */
#ifndef MODEL_CORPUS_DIRICHLET_H
#define MODEL_CORPUS_DIRICHLET_H

#include "seeded/seeded.h"

/* Writes n shares to p. alpha is from 0.001 to 1000. */
void dirichlet_draw(double *p, uint32_t n, double alpha, seeded *gen);

#endif
