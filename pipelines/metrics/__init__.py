"""Text metrics, agreement and statistics: pure functions and batched scorer models, independent of benchmarks and Ray.

`bertscore` and `bleurt` are scorer models, with `token_vectors` and `scorer_checkpoint` as their parts. Importing this
package loads neither torch nor transformers.
"""
