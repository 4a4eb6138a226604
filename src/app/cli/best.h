/* best: finds the best possible perplexity on generated text. */
#ifndef CLI_BEST_H
#define CLI_BEST_H

/* Returns the perplexity of the text's generator, from dir/meta.json: its perplexity on the split
 * ("valid") if the file contains that, otherwise the expected one; 0 if the text was not generated.
 * Compare it with a model's perplexity only if the vocabulary contains every word of the text,
 * because <unk> is easier to predict. */
double best_perplexity(const char *dir, const char *split);

#endif
