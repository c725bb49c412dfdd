"""The first page of a report: which model is best at what, whether that is real, people, chance, cost and doubts."""
