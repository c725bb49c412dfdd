"""Table benchmarks: rows with questions, media and answers; the definition is data, stored with them.

`files` reads a source row by row, `columns` says what its columns are, `survey` finds what only the whole file tells
(the kind, the closed set of labels), `rows` makes samples; `benchmark`, `answers` and `metrics` serve every kind.
"""
