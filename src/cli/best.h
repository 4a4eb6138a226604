/* best: generated text knows how well it can be predicted. */
#ifndef CLI_BEST_H
#define CLI_BEST_H

/* Perplexity that the source itself reaches, from dir/meta.json: on the split ("valid") where that
 * figure is there, else over all it could write; 0 if the text is not a generated one. It compares
 * with a model's only if the vocabulary lacks no word of the text: <unk> is easier to guess. */
double best_perplexity(const char *dir, const char *split);

#endif
