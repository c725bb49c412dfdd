"""Table benchmarks: rows with questions, media and answers; the definition is data, stored with them.

`columns_file` is the definition, `files` reads a source row by row, `shape` joins and completes rows, `columns` says
what the columns are, `survey` finds what only the whole file tells (the kind, the closed set of labels), `rows` makes
samples; `benchmark`, `answers` and `metrics` serve every kind.
"""
