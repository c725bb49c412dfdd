"""Text metrics, agreement and statistics: pure functions and batched scorer models, independent of benchmarks and Ray.

* `text`: ROUGE-L, BLEU, CIDEr-D; `meteor`: METEOR in Italian and English.
* `bertscore`, `bleurt`: scorer models; `token_vectors`, `scorer_checkpoint`: their parts.
* `f1`: macro F1, precision-recall summaries; `agreement`: kappas, phi, McNemar.
* `stats`: bootstrap and Wilson intervals, paired tests, rounding for print.

Importing them loads neither torch nor transformers; the first call does.
"""
