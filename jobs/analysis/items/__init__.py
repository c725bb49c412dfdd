"""What the items of a benchmark say: how hard they are, which labels are suspect, which need no medium."""
