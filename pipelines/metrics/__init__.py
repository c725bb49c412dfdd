"""Numbers over texts and verdicts: pure functions and batched scorer models.

Nothing here knows a benchmark, a model under test or Ray. The modules:

* `text`: ROUGE-L, BLEU, CIDEr-D; `meteor`: METEOR in Italian and English.
* `bertscore`, `bleurt`: scorer models, built where they run; `token_vectors`, `checkpoint`: their insides.
* `f1`: macro F1, F1@k, precision-recall summaries; `agreement`: kappas, phi, McNemar.
* `stats`: bootstrap and Wilson intervals, paired tests, rounding for print.

Importing any of them loads neither torch nor transformers: the libraries come in on the first call.
"""
